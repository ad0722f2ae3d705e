"""What a run's points come to: medians, costs by GiB, ratios. Every figure keeps the lines of points.csv that it is from."""

import collections
import csv
import dataclasses
import json
import os
import statistics

GiB = 1 << 30
PUBLISHED = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "published", "fast17_git_grep.csv")


@dataclasses.dataclass
class Figure:
    """The median of a point's repetitions: of those that were not disturbed, or of all when none was not."""

    point: object           # the first repetition that counts
    facts: object           # the first of all: it alone has what is known once for all of them
    seconds: float
    lowest: float
    highest: float
    lines: list             # of points.csv, the header being line 1
    facts_line: int
    all_seconds: list
    disturbed: int          # how many of them were

    @property
    def spread(self):
        """Of the repetitions, as a share of the median; None: there was one only."""
        return (self.highest - self.lowest) / self.seconds if len(self.lines) > 1 else None

    @property
    def mean(self):
        return statistics.fmean(self.all_seconds)

    @property
    def deviation(self):
        """The standard deviation as a share of the mean; None: there is one measurement only."""
        return statistics.stdev(self.all_seconds) / self.mean if len(self.all_seconds) > 1 else None

    def cost(self, gib):
        return self.seconds / gib if gib else None


class Run:
    """`fs`, `devices`: in the order in which they were asked for."""

    def __init__(self, folder, run, points):
        self.folder = folder
        self.run = run
        self.workload = run["asked"]["workload"]
        self.fs = list(dict.fromkeys(point.fs for point in points))
        self.devices = list(dict.fromkeys(point.device for point in points))
        together = collections.defaultdict(list)
        for line, point in enumerate(points, 2):
            together[point.fs, point.device, point.tree, point.x].append((line, point))
        self._figures = {}
        for key, everything in together.items():
            rows = [row for row in everything if not row[1].disturbed] or everything
            seconds = [point.seconds for _, point in rows]
            facts_line, facts = next((row for row in everything if row[1].repeat == 0), rows[0])
            self._figures[key] = Figure(rows[0][1], facts, statistics.median(seconds), min(seconds), max(seconds), [line for line, _ in rows],
                                        facts_line, seconds, sum(1 for _, point in rows if point.disturbed))

    def figures(self, fs, device, tree):
        """In the order of x."""
        return [self._figures[key] for key in sorted((key for key in self._figures if key[:3] == (fs, device, tree)), key=lambda key: key[3])]

    def trees(self):
        """aged and unaged, or the variants in the order in which they came first."""
        return sorted(dict.fromkeys(key[2] for key in self._figures), key=lambda tree: ("aged", "unaged").index(tree) if tree in ("aged", "unaged") else 2)

    @property
    def is_curve(self):
        """Something grows along x; else there are variants at one moment."""
        return set(self.trees()) <= {"aged", "unaged"}

    @property
    def goes_on(self):
        """Each point's tree is that of the point before, aged further; else it is made anew for each."""
        return self.workload in ("git", "git-warm", "mail")

    def figure(self, fs, device, tree, x):
        return self._figures.get((fs, device, tree, x))

    def last(self, device):
        """The greatest x that all file systems reached on a device; None: there is none."""
        reached = [max((key[3] for key in self._figures if key[:2] == (fs, device)), default=None) for fs in self.fs]
        return None if None in reached or not reached else min(reached)

    def gib(self, device, x):
        """One size by which all file systems' seconds are divided: that of the first of them at that point."""
        for fs in self.fs:
            for tree in self.trees():
                found = self.figure(fs, device, tree, x)
                if found and found.point.tree_bytes:
                    return found.point.tree_bytes / GiB
        return None

    def keys(self):
        return self._figures.keys()

    def heads_differ(self):
        """Where the file systems did not have the same commit: the greatest such x; None: nowhere."""
        heads = collections.defaultdict(set)
        for figure in self._figures.values():
            if head := json.loads(figure.facts.more or "{}").get("head"):
                heads[figure.facts.x].add(head)
        return max((x for x, found in heads.items() if len(found) > 1), default=None)


def published(device, gc):
    """{file system: [(pulls, aged s/GiB, unaged s/GiB, aged score, unaged score)]} of the study, on "hdd" or "ssd", partitions of 20 GiB. As there,
    all seconds are divided by ext4's size at the same pull."""
    with open(PUBLISHED, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["device"], row["gc"], row["partition_gb"]) == (device, gc, "20")]

    def number(text):
        return float(text) if text else None

    sizes = {int(row["pulls"]): int(row["fs_size_kib"]) for row in rows if row["fs"] == "ext4" and int(row["fs_size_kib"] or 0) > 0}
    curves = collections.defaultdict(list)
    for row in rows:
        pulls = int(row["pulls"])
        if pulls not in sizes:
            continue
        gib = sizes[pulls] / (1 << 20)
        aged, unaged = number(row["aged_s"]), number(row["unaged_s"])
        curves[row["fs"]].append((pulls, aged / gib if aged else None, unaged / gib if unaged else None,
                                  number(row["aged_layout_score"]), number(row["unaged_layout_score"])))
    return {fs: sorted(curve) for fs, curve in curves.items()}
