"""The plots of a report, as PNG."""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

from . import figures  # noqa: E402

COLOURS = {"lsmfs": "#d62728", "ext4": "#1f77b4", "xfs": "#2ca02c", "btrfs": "#9467bd", "f2fs": "#8c564b", "zfs": "#7f7f7f", "betrfs": "#e377c2"}
OTHERS = ["#17becf", "#bcbd22", "#ff7f0e", "#393b79", "#637939"]
LINES = {"aged": "-", "unaged": "--"}
plt.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.25, "axes.spines.top": False, "axes.spines.right": False,
                     "figure.dpi": 130, "legend.frameon": False, "axes.titlesize": 10})


def colour(fs, names):
    for name, value in COLOURS.items():
        if fs == name:
            return value
    unknown = [name for name in names if name not in COLOURS]
    return OTHERS[unknown.index(fs) % len(OTHERS)]


def _png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    plt.close(figure)
    return buffer.getvalue()


def _panels(run, title):
    figure, axes = plt.subplots(1, len(run.devices), figsize=(1 + 5.4 * len(run.devices), 4.2), squeeze=False)
    for axis, device in zip(axes[0], run.devices):
        axis.set_title(device)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure, list(zip(axes[0], run.devices))


def _legend(axis, run, behind):
    names = [Line2D([], [], color=colour(fs, run.fs), lw=2, label=fs) for fs in run.fs]
    kinds = [Line2D([], [], color="black", lw=1.3, ls=LINES[tree], label=tree) for tree in run.trees() if len(run.trees()) > 1]
    if behind:
        kinds.append(Line2D([], [], color="black", lw=3, alpha=0.18, label="published (FAST'17),\nother hardware"))
    axis.legend(handles=names + kinds, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _plain(value, _):
    return f"{value:g}"


def _published_kind(device):
    """Which of the study's disks stands behind one of ours."""
    return {"simdisk:hdd": "hdd", "simdisk:ssd-sata": "ssd"}.get(device)


def _behind(axis, run, device, column):
    """The study's curves, up to where ours end."""
    kind = _published_kind(device)
    if run.workload != "git" or kind is None:
        return False
    end = run.last(device) or 0
    for fs, curve in figures.published(kind, run.run["asked"]["gc"]).items():
        for tree, offset in (("aged", 0), ("unaged", 1)):
            line = [(row[0], row[column + offset]) for row in curve if row[0] <= end and row[column + offset] is not None]
            if len(line) > 1:
                axis.plot(*zip(*line), color=COLOURS.get(fs, "black"), lw=3, ls=LINES[tree], alpha=0.18, zorder=1)
                if tree == "aged":
                    axis.annotate(fs, line[-1], color=COLOURS.get(fs, "black"), alpha=0.45, fontsize=7, xytext=(2, 0), textcoords="offset points")
    return True


def cost(run, x_label):
    """Seconds of a cold scan for each GiB."""
    figure, panels = _panels(run, "Cold scan, seconds per GiB of the tree")
    behind = False
    for axis, device in panels:
        behind |= _behind(axis, run, device, 1)
        for fs in run.fs:
            for tree in run.trees():
                rows = [(found.point.x, found, run.gib(device, found.point.x)) for found in run.figures(fs, device, tree)]
                rows = [(x, found, gib) for x, found, gib in rows if gib]
                if not rows:
                    continue
                middle = [found.cost(gib) for _, found, gib in rows]
                errors = [[(found.seconds - found.lowest) / gib for _, found, gib in rows], [(found.highest - found.seconds) / gib for _, found, gib in rows]]
                axis.errorbar([x for x, _, _ in rows], middle, yerr=errors, color=colour(fs, run.fs), ls=LINES[tree], lw=1.7 if tree == "aged" else 1.1,
                              marker="o" if tree == "aged" else "", ms=3, capsize=2, zorder=3)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(FuncFormatter(_plain))
        axis.set_xlabel(x_label)
        axis.set_ylabel("s/GiB (log)")
    _legend(panels[-1][0], run, behind)
    return _png(figure)


def score(run, x_label):
    figure, panels = _panels(run, "Dynamic layout score of the scan (1: the device reads without a jump)")
    behind = False
    for axis, device in panels:
        behind |= _behind(axis, run, device, 3)
        for fs in run.fs:
            for tree in run.trees():
                rows = [(found.point.x, found.point.layout_score) for found in run.figures(fs, device, tree) if found.point.layout_score is not None]
                if rows:
                    axis.plot(*zip(*rows), color=colour(fs, run.fs), ls=LINES[tree], lw=1.7 if tree == "aged" else 1.1, marker="o" if tree == "aged" else "", ms=3)
        axis.set_ylim(-0.02, 1.02)
        axis.set_xlabel(x_label)
    _legend(panels[-1][0], run, behind)
    return _png(figure)


def _sums(run, x_label, title, unit, value):
    figure, panels = _panels(run, title)
    for axis, device in panels:
        for fs in run.fs:
            rows = [(found.point.x, value(found.point)) for found in run.figures(fs, device, "aged") if value(found.point) is not None]
            total, line = 0.0, []
            for x, step in rows:
                total += step
                line.append((x, total))
            if line:
                axis.plot(*zip(*line), color=colour(fs, run.fs), lw=1.7, marker="o", ms=3)
        axis.set_xlabel(x_label)
        axis.set_ylabel(unit)
        axis.set_ylim(bottom=0)
    names = [Line2D([], [], color=colour(fs, run.fs), lw=2, label=fs) for fs in run.fs]
    panels[-1][0].legend(handles=names, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _png(figure)


def written(run, x_label):
    return _sums(run, x_label, "Written to the device by aging, all in all", "MiB", lambda point: None if point.written_bytes is None else point.written_bytes / (1 << 20))


def aging_time(run, x_label):
    return _sums(run, x_label, "Time that the aging itself took, all in all (at full speed)", "s", lambda point: point.aging_seconds)


def space(run, x_label):
    figure, panels = _panels(run, "Space used for each byte of the tree")
    for axis, device in panels:
        for fs in run.fs:
            rows = [(found.point.x, found.point.used_bytes / found.point.tree_bytes) for found in run.figures(fs, device, "aged")
                    if found.point.used_bytes is not None and found.point.tree_bytes]
            if rows:
                axis.plot(*zip(*rows), color=colour(fs, run.fs), lw=1.7, marker="o", ms=3)
        axis.set_ylim(bottom=0)
        axis.set_xlabel(x_label)
    names = [Line2D([], [], color=colour(fs, run.fs), lw=2, label=fs) for fs in run.fs]
    panels[-1][0].legend(handles=names, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _png(figure)
