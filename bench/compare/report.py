"""Medians, ratios, budgets and the table of a comparison."""

import statistics

from costs import median
from work import FIGURES, PIECES
from work.piece import BEST, UNITS, GiB, KiB, MiB, shown

PEERS = {"ext4", "xfs", "btrfs"}  # that budgets mean by the best peer


def summarize(rounds, systems, conditions, missing):
    """rounds: [{fs: {figure: value}}]; systems: {fs: kind}; conditions: {fs of kind lsmfs: what its budgets go by}; missing: {piece: why
    it was left out} ->
    {figure: {"fs": {fs: {values, median, min, max, to_best_peer, to_ext4}}, "budget": text, "met": {fs: True, False, or None}}}, and
    {figure: {"fs": {}, "missing": why}} of what was left out

    Peers are all file systems but lsmfs. What cannot be said for want of peers, figures or a budget is left out. None: less was
    done than the budget is about."""
    result = {}
    left_out = {figure.name: missing[piece.name] for piece in PIECES if piece.name in missing for figure in piece.figures}
    for figure in FIGURES.values():
        cells = {}
        for figures in rounds:
            for fs, values in figures.items():
                if figure.name in values:
                    cells.setdefault(fs, {"values": []})["values"].append(values[figure.name])
        if not cells:
            if figure.name in left_out:
                result[figure.name] = {"fs": {}, "missing": left_out[figure.name]}
            continue
        for cell in cells.values():
            cell.update(median=statistics.median(cell["values"]), min=min(cell["values"]), max=max(cell["values"]))
        peers = [cell["median"] for fs, cell in cells.items() if systems[fs] != "lsmfs"]
        _add_ratios(cells, "to_best_peer", (max if figure.more_is_better else min)(peers, default=0))
        _add_ratios(cells, "to_ext4", next((cell["median"] for fs, cell in cells.items() if systems[fs] == "ext4"), 0))
        result[figure.name] = {"fs": cells, **_judged(figure, cells, {systems[fs] for fs in cells}, conditions)}
    return result


def _add_ratios(cells, key, to):
    if to > 0:
        for cell in cells.values():
            cell[key] = cell["median"] / to


def _judged(figure, cells, kinds, conditions):
    texts, met = [], {}
    for fs, under in conditions.items():
        limit = figure.budget.limit_under(under) if figure.budget else None
        if limit is None:
            continue
        of = figure.budget.of
        word = "at least" if figure.more_is_better else "at most"
        texts.append(f"{word} {limit:.3g} x {of}" if of else f"{word} {limit * UNITS[figure.unit]:.4g} {figure.unit}")
        value = cells.get(fs, {}).get({BEST: "to_best_peer", "ext4": "to_ext4", "": "median"}[of])
        if value is None or (of == BEST and not PEERS <= kinds):
            continue
        met[fs] = None if figure.name in under.smaller else value >= limit if figure.more_is_better else value <= limit
    return {"budget": ", ".join(dict.fromkeys(texts)), "met": met} if texts else {}


def _cell(cell, unit, ratio):
    text = shown(cell["median"], unit)
    if len(cell["values"]) > 1:
        text += f" [{shown(cell['min'], unit)}-{shown(cell['max'], unit)}]"
    return text + (f" {_times(cell[ratio])}" if ratio in cell else "")


def _times(ratio):
    return f"{ratio:.{2 if ratio < 100 else 0}f}x"


def rows(summary, systems):
    """The table, its head first. Each cell: median [min-max], and for a peer the ratio of its median to the best peer's. Of what was left
    out, the first says why."""
    own = [fs for fs, kind in systems.items() if kind == "lsmfs"]
    head = ["work", "unit", *systems]
    for fs in own:
        head += [f"{fs} / best peer", f"{fs} / ext4"]
    found = [head + (["budget"] + ["met" if len(own) == 1 else f"{fs} meets it" for fs in own] if own else [])]
    for name, row in summary.items():
        cells, unit = row["fs"], FIGURES[name].unit
        line = [name, unit] + [_cell(cells[fs], unit, "" if fs in own else "to_best_peer") if fs in cells else "-" for fs in systems]
        line[2] = row.get("missing", line[2])
        for fs in own:
            line += [_times(cells[fs][key]) if key in cells.get(fs, {}) else "-" for key in ("to_best_peer", "to_ext4")]
        if own:
            line.append(row.get("budget", "-"))
            line += [{True: "yes", False: "NO", None: "(smaller)", "": "-"}[row.get("met", {}).get(fs, "")] for fs in own]
        found.append(line)
    return found


def costs(summary, rounds):
    """The table of what was costed, its head first: medians. rounds: [{fs: {figure: Costs}}]. Threads of less than a hundredth of the
    time are left out."""
    found = [["work", "file system", "requests", "took", "programs", "daemon, by threads"]]
    for name, row in summary.items():
        for fs in row["fs"]:
            several = [of[fs][name] for of in rounds if name in of.get(fs, {})]
            if not several:
                continue
            cost = median(several)
            threads = sorted(cost.threads.items(), key=lambda thread: -thread[1])
            found.append([name, fs, f"{cost.requests:.0f}", f"{shown(cost.seconds, 's')} s", f"{shown(cost.program, 's')} s",
                          ", ".join(f"{thread} {shown(seconds, 's')} s" for thread, seconds in threads if seconds > cost.seconds / 100) or "-"])
    return found


def head(facts):
    """What is above the table: sizes and numbers as --set has them, and nothing of what was not asked for."""
    return ", ".join(key if value is True else f"{key} {_written(value)}" for key, value in facts.items()
                     if value not in ("", None) and value is not False)


def _written(value):
    if isinstance(value, list):
        return " ".join(value)
    if isinstance(value, int):
        for letter, unit in (("g", GiB), ("m", MiB), ("k", KiB)):
            if value and value % unit == 0:
                return f"{value // unit}{letter}"
    return str(value)


def table(lines, aligned):
    """Markdown; aligned, it can be read as it is, too."""
    widths = [max(len(line[column]) for line in lines) if aligned else 3 for column in range(len(lines[0]))]
    text = ["| " + " | ".join(word.ljust(width if aligned else 0) for word, width in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(text)
