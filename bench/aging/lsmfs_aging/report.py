"""A run as a page to look at: report.html, which needs nothing else, with its plots as PNG files beside it."""

import base64
import html
import json
import os
import shutil

from shared.commands import Problem

from . import figures, plots, results

MiB, GiB = 1 << 20, 1 << 30

# What a workload's x is, and what it does, for people who have not seen it.
WORKLOADS = {
    "git": ("pulls", "Each step pulls one commit of a repository, parents before children, into a working copy (git pull --no-rebase -s recursive -X theirs); "
                     "that HEAD moves is checked at every pull."),
    "intrafile": ("4-KiB chunks of 100 appended in turn", "10 files of 400 KiB: their last chunks are appended to one file after the other, with an fsync after each."),
    "interfile": ("% of the files exchanged", "Files of 4 KiB in the directories of a source tree, created in an order that is ever further from the tree's."),
    "filesize": ("KiB of each file", "The same amount of data in files of growing size, created in the order of the tree (unaged) and in a random one (aged)."),
    "git-warm": ("pulls", "As git, but nothing is unmounted and no cache dropped: page cache, daemons and programs share one limit on memory."),
    "xargs-cat": ("", "find | xargs cat of trees that were copied in one after the other: twins with flat contents, and twins with the same contents compressed by gzip. The order "
                      "of the trees is another in each run."),
    "gitignore": ("", "A cold walk of all directories (list), the same with one open of a name that does not exist in each, and git read-tree -m -u HEAD HEAD without and with "
                      "--exclude-per-directory=.gitignore."),
    "bigalloc": ("", "fallocate, truncate and unlink of large files, each after mounting anew; then direct reads and writes of 128 KiB at random."),
    "svn": ("", "svnbench on a repository of which one half was loaded before, one after many other files had come and gone, and on a copy of it on a new file system."),
    "mail": ("days", "Messages of 1 to 32 KiB come to and go from maildirs, each durable before the next."),
}
PROFILE_FIELDS = {"simdisk:hdd": "modelled_hdd", "simdisk:ssd-sata": "modelled_ssd", "simdisk:cloud-volume": "modelled_cloud"}

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1.2rem;color:#222}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{margin-top:2.2rem;font-size:1.2rem}img{max-width:100%;height:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}td,th{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th{border-bottom:2px solid #999}td:first-child,th:first-child,td.w,th.w{text-align:left}td.best{font-weight:700}.s{color:#777;font-size:.85rem}code{font-size:.88rem}"""


def number(value, digits=3):
    if value is None:
        return "–"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def table(header, rows, words=1):
    """`rows`: of cells, each a text or (text, class). The first `words` columns are words."""
    out = ["<table><tr>" + "".join(f"<th{' class=w' if at < words else ''}>{html.escape(cell)}</th>" for at, cell in enumerate(header)) + "</tr>"]
    for row in rows:
        cells = []
        for at, cell in enumerate(row):
            text, kind = cell if isinstance(cell, tuple) else (cell, "w" if at < words else "")
            cells.append(f"<td{f' class={kind}' if kind else ''}>{html.escape(str(text))}</td>")
        out.append("<tr>" + "".join(cells) + "</tr>")
    return "".join(out) + "</table>"


def lines_of(*found):
    """Where in points.csv figures come from: "2, 5-7"."""
    numbers = sorted({line for figure in found if figure for line in [*figure.lines, figure.facts_line]})
    parts = []
    for line in numbers:
        if parts and parts[-1][1] == line - 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def final_ratios(run):
    """For each device a table of where all file systems ended."""
    out = []
    for device in run.devices:
        x = run.last(device)
        if x is None:
            out.append(f"<p>{html.escape(device)}: not all file systems have a point yet.</p>")
            continue
        gib = run.gib(device, x)
        found = {fs: (run.figure(fs, device, "aged", x), run.figure(fs, device, "unaged", x)) for fs in run.fs}
        aged = {fs: pair[0].seconds for fs, pair in found.items() if pair[0]}
        best = min(aged.values(), default=None)
        rows = []
        for fs, (old, new) in found.items():
            if not old:
                continue
            spreads = [figure.spread for figure in (old, new) if figure and figure.spread is not None]
            spread = f"{100 * max(spreads):.1f} %" if spreads else "–"
            disturbed = sum(figure.disturbed for figure in (old, new) if figure)
            if disturbed:
                spread += f", {disturbed} scans disturbed"
            point, used = old.point, old.facts.used_bytes
            rows.append([fs, (number(old.cost(gib)), "best" if old.seconds == best else ""), number(new.cost(gib)) if new else "–",
                         f"{old.seconds / new.seconds:.2f}" if new else "–", f"{old.seconds / best:.1f}", number(point.layout_score, 4),
                         number(new.point.layout_score, 4) if new else "–", number(point.read_bytes / point.tree_bytes) if point.tree_bytes else "–",
                         number(used / point.tree_bytes) if point.tree_bytes and used else "–",
                         spread, lines_of(old, new)])
        out.append(f"<h3>{html.escape(device)}, after {x:g} {WORKLOADS[run.workload][0]} ({gib * 1024:.1f} MiB)</h3>")
        out.append(table(["file system", "aged s/GiB", "unaged s/GiB", "aged / unaged", "aged / best", "score aged", "score unaged", "read / tree", "space / tree",
                          "spread", "rows of points.csv"], rows))
    return "\n".join(out)


def variants(run):
    """For each device a table of all that was measured."""
    out = []
    for device in run.devices:
        rows = []
        found = [(tree, fs, run.figure(fs, device, tree, 0)) for tree in run.trees() for fs in run.fs]
        keys = list(dict.fromkeys(key for _, _, figure in found if figure and figure.point.more for key in json.loads(figure.point.more)))
        for tree, fs, figure in found:
            if not figure:
                continue
            point, more = figure.point, json.loads(figure.point.more or "{}")
            rows.append([tree, fs, number(figure.mean), f"{100 * figure.deviation:.1f} %" if figure.deviation is not None else "–", str(len(figure.lines)),
                         number(point.reads), number(point.read_bytes / MiB if point.read_bytes is not None else None), number(point.layout_score, 4),
                         *[number(more.get(key)) for key in keys], lines_of(figure)])
        out.append(f"<h2>{html.escape(device)}</h2>")
        out.append(table(["what", "file system", "mean s", "deviation", "runs", "reads", "MiB read", "score", *[key.replace("_", " ") for key in keys], "rows of points.csv"],
                         rows, words=2))
    if run.workload == "gitignore":
        out.append(missing_names(run))
    return "\n".join(out)


def missing_names(run):
    """What asking for a name that does not exist costs the device: the difference of two walks."""
    rows = []
    for device in run.devices:
        for fs in run.fs:
            plain, asking = run.figure(fs, device, "list", 0), run.figure(fs, device, "list-and-open-missing", 0)
            if plain and asking:
                names = json.loads(asking.point.more)["directories"]
                rows.append([fs, device, str(names), number((asking.point.reads - plain.point.reads) / names), number(1e6 * (asking.mean - plain.mean) / names),
                             lines_of(plain, asking)])
    return "<h2>The price of a name that does not exist</h2>" + table(["file system", "device", "names", "device reads per name", "microseconds per name", "rows"], rows, words=2)


def modelled(run):
    """Measured seconds beside those that the model gives for the same requests."""
    rows = []
    for device in run.devices:
        field = PROFILE_FIELDS.get(device)
        x = run.last(device)
        for fs in run.fs if field and x is not None else []:
            for tree in run.trees():
                found = run.figure(fs, device, tree, x)
                value = found and getattr(found.point, field)
                if value:
                    rows.append([fs, device, tree, number(found.point.seconds), number(value), f"{value / found.point.seconds:.2f}", str(found.lines[0])])
    if not rows:
        return ""
    return ("<h2>Measured and modelled</h2><p>What the disk's model alone takes for the requests of a scan, beside the time that the scan took on the simulated disk. "
            "The difference is work of processors that the disk waits for; where the share is above 1, requests came while others were served.</p>" +
            table(["file system", "device", "tree", "measured s", "modelled s", "modelled / measured", "row"], rows, words=3) +
            modelled_elsewhere(run))


def modelled_elsewhere(run):
    """Seconds per GiB by the models alone, for the requests seen on each device."""
    rows = []
    for device in run.devices:
        x = run.last(device)
        gib = run.gib(device, x) if x is not None else None
        for fs in run.fs if gib else []:
            for tree in run.trees():
                found = run.figure(fs, device, tree, x)
                if found and found.point.modelled_hdd is not None:
                    point = found.point
                    rows.append([fs, device, tree] + [number(value / gib if value is not None else None) for value in (point.modelled_hdd, point.modelled_ssd, point.modelled_cloud)]
                                + [str(found.lines[0])])
    return "<p>The same requests by the model of each disk, seconds per GiB, processors left out:</p>" + table(
        ["file system", "requests seen on", "tree", "hard disk", "SATA SSD", "cloud volume", "row"], rows, words=3) if rows else ""


def facts(run):
    asked = run.run["asked"]
    rows = [["finished", run.run["finished"] or "not yet"], ["asked for", ", ".join(f"{key} {value}" for key, value in asked.items())]]
    differ = run.heads_differ()
    if differ is not None:
        rows.append(["commits", f"file systems were not at the same one at some points, the last of them at {differ:g} {WORKLOADS[run.workload][0]}"])
    known = {}
    for sitting in run.run["sittings"]:
        machine = sitting["machine"]
        told = [["command", sitting["command"]],
                ["machine", f"{machine['cpu']}, {machine['cpus']} processors, {machine['memory_bytes'] / GiB:.1f} GiB of memory"],
                ["system", f"{machine['system']}, Linux {machine['kernel']}, {', '.join(machine['versions'].values())}"]]
        told += [[system["name"], f"{system['version']} | {system['mkfs']} | {system['mount']}"] for system in sitting["file_systems"]]
        rows.append(["sitting since", sitting["since"]])
        rows += [row for row in told if known.get(row[0]) != row[1]]  # of a later one, what is not as it was
        known.update(told)
    return table(["", ""], [[(name, "w"), (text, "w")] for name, text in rows], words=2)


ALONE = "<p>One file system after the other lives on a device of its own. The tree is aged at full speed. "
COLD = """At each point the file system is unmounted; the kernel's caches
are dropped; it is mounted again; and while the requests to its device are traced, one cold <code>grep -r --binary-files=text</code> for 16 random letters reads everything."""
TWIN = """
Then the tree is copied with <code>cp -a</code> to a newly made file system of the same kind on an equal device, the <i>unaged twin</i>, which is scanned in the same way."""
WARM = """At each point one <code>grep -r --binary-files=text</code> for 16 random letters reads everything, and while the requests
to its device are traced, a second one does; nothing is unmounted, and no cache dropped."""
SCORE = """ No
file system gets a step that the others do not get. All seconds of a point are divided by one size, that of the tree in whole blocks of 4 KiB.</p>
<p>The <i>dynamic layout score</i> is 1 minus the share of the blocks read at which the device had to begin elsewhere than where the read before had ended, as requests were issued to
the device. It does not say how far the jumps go.</p>"""


def method(run):
    return ALONE + (WARM if run.workload == "git-warm" else COLD) + (TWIN if run.goes_on else "") + SCORE


LIMITS = """<ul><li>A simulated disk serves one request at a time, in order but for continuations of what it reads, with the mean rotational delay; it has no cache of its own for writes and no
queue that it sorts. Its hard disk and SSD reproduce the bandwidth of random reads by size that the study measured on its disks; times on it are not times of any disk that you can buy.</li>
<li>A loop device over a file on a fast disk shows what is left when jumps cost next to nothing: processors, and the number of requests.</li>
<li>The published curves are of another machine, other disks, kernels of 2016 and the history of Linux: they stand behind ours for their shape.</li>
<li>Aging runs without pauses and with the whole device free: file systems that tidy up in idle time get none, and none has to fight for space.</li>
<li>The spread is that of repeated scans of the last point, greatest minus least by the median, not that of repeated agings. On loop devices and simulated disks each of them begins with
the same bytes on the device; on a real device with what the scan before has left.</li>
<li>On a virtual machine a scan of any point during which the host had the processors for longer than was asked for (<code>--stolen</code>) does not count and is made again, at most as many
times as there are to be repetitions; if none counts in the end, all do, and the table says so. The rows of those that do not count are in points.csv, too (<code>disturbed</code>).</li></ul>"""


def page(title, parts):
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"


def write(folders, output):
    runs = []
    for folder in folders:
        run, points = results.load(folder)
        if not points:
            raise Problem(f"{folder}: has no points yet")
        runs.append(figures.Run(folder, run, points))
    output = output or os.path.join(folders[0], "report")
    os.makedirs(output, exist_ok=True)
    if len(runs) == 2:
        text = compare(*runs)
    else:
        text = single(runs[0], output)
        for name in ("points.csv", "run.json"):
            shutil.copyfile(os.path.join(folders[0], name), os.path.join(output, name))
    path = os.path.join(output, "report.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(path)


def single(run, output):
    x_label, about = WORKLOADS[run.workload]
    begin = run.run["sittings"][0]
    head = [f"<h1>Aging: {html.escape(run.workload)}</h1><p class=s>{html.escape(begin['since'])}, Linux {html.escape(begin['machine']['kernel'])}</p>",
            f"<p>{html.escape(about)}</p>"]
    tail = ["<h2>Limits</h2>", LIMITS, "<h2>This run</h2>", facts(run),
            "<p>Every figure is of the rows of points.csv that are named beside it, or of all rows with its file system, device, tree and x.</p>"]
    if not run.is_curve:
        return page(f"Aging: {run.workload}", head + [variants(run)] + tail)
    pictures = {"cost": plots.cost(run, x_label), "layout-score": plots.score(run, x_label)}
    if any(point.facts.written_bytes is not None for fs in run.fs for device in run.devices for point in run.figures(fs, device, "aged")):
        pictures["written"] = plots.written(run, x_label)
        pictures["aging-time"] = plots.aging_time(run, x_label)
        pictures["space"] = plots.space(run, x_label)
    for name, png in pictures.items():
        with open(os.path.join(output, name + ".png"), "wb") as file:
            file.write(png)

    def image(name):
        return f'<p><img alt="{name}" src="data:image/png;base64,{base64.b64encode(pictures[name]).decode()}"></p>'

    parts = head + [image("cost"), "<h2>Where it ended</h2>", final_ratios(run), "<h2>Layout</h2>", image("layout-score")]
    if "written" in pictures:
        parts += ["<h2>What aging cost</h2>", image("written"), image("aging-time"), image("space")]
    parts += [modelled(run), "<h2>Method</h2>", method(run)] + tail
    return page(f"Aging: {run.workload}", parts)


def compare(one, other):
    """Two runs side by side: where both have a point, the ratio of the second to the first."""
    if one.workload != other.workload:
        raise Problem(f"{one.folder} is of {one.workload} and {other.folder} of {other.workload}: there is nothing to compare")
    rows = []
    for key in sorted(one.keys() & other.keys(), key=lambda key: (key[1], key[0], key[2], key[3])):
        fs, device, tree, x = key
        left, right = one.figure(*key), other.figure(*key)
        gib = [run.gib(device, x) for run in (one, other)]
        costs = [figure.cost(size) if all(gib) else figure.seconds for figure, size in zip((left, right), gib)]
        rows.append([fs, device, tree, f"{x:g}", number(costs[0]), number(costs[1]), f"{costs[1] / costs[0]:.2f}",
                     number(left.point.layout_score, 4), number(right.point.layout_score, 4), lines_of(left), lines_of(right)])
    if not rows:
        raise Problem(f"{one.folder} and {other.folder} have no point in common")
    header = ["file system", "device", "tree", "x", "A s/GiB (or s)", "B s/GiB (or s)", "B / A", "score A", "score B", "rows of A", "rows of B"]
    parts = ["<h1>Two runs</h1>", f"<p>A: {html.escape(one.folder)}; B: {html.escape(other.folder)}</p>", table(header, rows, words=3),
             "<h2>A</h2>", facts(one), "<h2>B</h2>", facts(other), "<h2>Method</h2>", method(one)]
    return page("Aging: two runs", parts)
