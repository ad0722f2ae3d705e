"""The plots of a report, as PNG."""

import io
import itertools

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

from . import figures  # noqa: E402

COLOURS = {"lsmfs": "#d62728", "ext4": "#1f77b4", "xfs": "#2ca02c", "btrfs": "#9467bd", "f2fs": "#8c564b", "zfs": "#7f7f7f", "betrfs": "#e377c2"}
OTHERS = ["#17becf", "#bcbd22", "#ff7f0e", "#393b79", "#637939"]
MiB = 1 << 20
LINES = {"aged": "-", "unaged": "--"}
plt.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.25, "axes.spines.top": False, "axes.spines.right": False,
                     "figure.dpi": 130, "legend.frameon": False, "axes.titlesize": 10})


def colour(fs, names):
    if fs in COLOURS:
        return COLOURS[fs]
    unknown = [name for name in names if name not in COLOURS]
    return OTHERS[unknown.index(fs) % len(OTHERS)]


def _png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    plt.close(figure)
    return buffer.getvalue()


def _plain(value, _):
    return f"{value:g}"


def _published_kind(device):
    """Which of the study's disks stands behind one of ours."""
    return {"simdisk:hdd": "hdd", "simdisk:ssd-sata": "ssd"}.get(device)


def _behind(axis, run, device, column):
    """The study's curves, up to where ours end. Returns where each ends, {fs: (x, y)}."""
    kind = _published_kind(device)
    if run.workload != "git" or kind is None:
        return {}
    end, ends = run.last(device) or 0, {}
    for fs, curve in figures.published(kind, run.run["asked"]["gc"]).items():
        for tree, offset in (("aged", 0), ("unaged", 1)):
            line = [(row[0], row[column + offset]) for row in curve if row[0] <= end and row[column + offset] is not None]
            if len(line) > 1:
                axis.plot(*zip(*line), color=COLOURS.get(fs, "black"), lw=3, ls=LINES[tree], alpha=0.18, zorder=1)
                if tree == "aged":
                    ends[fs] = line[-1]
    return ends


def _name(axis, ends):
    """Names at the ends of lines, from below to above, none over another."""
    points = 72 / axis.figure.dpi
    at = {fs: axis.transData.transform(end)[1] * points for fs, end in ends.items()}
    last = float("-inf")
    for fs in sorted(ends, key=at.get):
        place = max(at[fs], last + 8)
        last = place
        axis.annotate(fs, ends[fs], color=COLOURS.get(fs, "black"), alpha=0.6, fontsize=7, va="center", xytext=(3, place - at[fs]), textcoords="offset points")


def _legend(axis, run, trees, behind):
    names = [Line2D([], [], color=colour(fs, run.fs), lw=2, label=fs) for fs in run.fs]
    kinds = [Line2D([], [], color="black", lw=1.3, ls=LINES[tree], label=tree) for tree in trees if len(trees) > 1]
    if behind:
        kinds.append(Line2D([], [], color="black", lw=3, alpha=0.18, label="published (FAST'17),\nother hardware"))
    axis.legend(handles=names + kinds, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _plot(run, title, x_label, trees, curve, published=None, finish=lambda axis: axis.set_ylim(bottom=0)):
    """A panel for each device, with a line for each file system and tree. `curve(device, figures)`: rows of (x, y) or (x, y, below,
    above) of one line; `published`: which column of the study's curves lies behind."""
    figure, axes = plt.subplots(1, len(run.devices), figsize=(1 + 5.4 * len(run.devices), 4.2), squeeze=False)
    behind = False
    for axis, device in zip(axes[0], run.devices):
        ends = _behind(axis, run, device, published) if published is not None else {}
        behind |= bool(ends)
        for fs in run.fs:
            for tree in trees:
                columns = list(zip(*curve(device, run.figures(fs, device, tree))))
                if columns:
                    axis.errorbar(*columns[:2], yerr=columns[2:] or None, color=colour(fs, run.fs), ls=LINES[tree], lw=1.7 if tree == "aged" else 1.1,
                                  marker="o" if tree == "aged" else "", ms=3, capsize=2, zorder=3)
        axis.set_title(device)
        axis.set_xlabel(x_label)
        finish(axis)
        _name(axis, ends)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    _legend(axes[0][-1], run, trees, behind)
    return _png(figure)


def cost(run, x_label):
    """Seconds of a cold scan for each GiB."""
    def curve(device, found):
        rows = [(figure, run.gib(device, figure.point.x)) for figure in found]
        return [(figure.point.x, figure.cost(gib), (figure.seconds - figure.lowest) / gib, (figure.highest - figure.seconds) / gib) for figure, gib in rows if gib]

    def finish(axis):
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axis.yaxis.set_major_formatter(FuncFormatter(_plain))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.set_ylabel("s/GiB (log)")

    return _plot(run, "Cold scan, seconds per GiB of the tree", x_label, run.trees(), curve, published=1, finish=finish)


def score(run, x_label):
    def curve(_, found):
        return [(figure.point.x, figure.point.layout_score) for figure in found if figure.point.layout_score is not None]

    return _plot(run, "Dynamic layout score of the scan (1: the device reads without a jump)", x_label, run.trees(), curve, published=3,
                 finish=lambda axis: axis.set_ylim(-0.02, 1.02))


def _sums(run, x_label, title, value):
    """All in all up to each point, where the tree goes on aging from the point before."""
    def curve(_, found):
        rows = [(figure.facts.x, value(figure.facts)) for figure in found if value(figure.facts) is not None]
        steps = [step for _, step in rows]
        return list(zip((x for x, _ in rows), itertools.accumulate(steps) if run.goes_on else steps))

    return _plot(run, title.format(", all in all" if run.goes_on else ""), x_label, ["aged"], curve)


def written(run, x_label):
    return _sums(run, x_label, "Written to the device by aging{}, MiB", lambda point: None if point.written_bytes is None else point.written_bytes / MiB)


def aging_time(run, x_label):
    return _sums(run, x_label, "Time that the aging itself took{} (at full speed), seconds", lambda point: point.aging_seconds)


def space(run, x_label):
    def curve(_, found):
        return [(figure.facts.x, figure.facts.used_bytes / figure.facts.tree_bytes) for figure in found
                if figure.facts.used_bytes is not None and figure.facts.tree_bytes]

    return _plot(run, "Space used for each byte of the tree", x_label, ["aged"], curve)
