"""Medians, ratios, the table and the JSON of a comparison."""

import statistics

from work import MiB, WORK

PEERS = ("ext4", "xfs", "btrfs")
ALL = PEERS + ("lsmfs",)


def summarize(rounds):
    """rounds: [{fs: {piece: value}}] -> {piece: {fs: {median, min, max, values}}}"""
    result = {}
    for piece in list(WORK) + ["space empty"]:
        for figures in rounds:
            for fs, values in figures.items():
                if piece in values:
                    result.setdefault(piece, {}).setdefault(fs, {"values": []})["values"].append(values[piece])
        for cell in result.get(piece, {}).values():
            cell.update(median=statistics.median(cell["values"]), min=min(cell["values"]), max=max(cell["values"]))
    for piece, cells in result.items():
        peers = [cell["median"] for fs, cell in cells.items() if fs in PEERS]
        best = min(peers, default=0)
        if best > 0 and piece != "space empty":
            for cell in cells.values():
                cell["to_best_peer"] = cell["median"] / best
        if cells.get("ext4", {}).get("median", 0) > 0 and "lsmfs" in cells:
            cells["lsmfs"]["to_ext4"] = cells["lsmfs"]["median"] / cells["ext4"]["median"]
    return result


def _number(value, unit):
    if unit == "MiB":
        return f"{value / MiB:.0f}"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def table(summary, names):
    """Each cell: median [min-max] and the ratio of the median to the best peer's."""
    head = ["work", "unit"] + names + (["lsmfs / best peer", "lsmfs / ext4"] if "lsmfs" in names else [])
    rows = [head]
    for piece, (unit, _) in WORK.items():
        cells = summary.get(piece)
        if not cells:
            continue
        row = [piece, unit]
        for fs in names:
            cell = cells.get(fs)
            if cell is None:
                row.append("-")
                continue
            text = _number(cell["median"], unit)
            if len(cell["values"]) > 1:
                text += f" [{_number(cell['min'], unit)}-{_number(cell['max'], unit)}]"
            if "to_best_peer" in cell and fs in PEERS:
                text += f" {cell['to_best_peer']:.2f}x"
            row.append(text)
        if "lsmfs" in names:
            own = cells.get("lsmfs", {})
            for key in ("to_best_peer", "to_ext4"):
                row.append(f"{own[key]:.2f}x" if key in own else "-")
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for index, row in enumerate(rows):
        lines.append("| " + " | ".join(text.ljust(width) for text, width in zip(row, widths)) + " |")
        if index == 0:
            lines.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
