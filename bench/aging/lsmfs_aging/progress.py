"""What is being done, how far it is, and how long it will take: a bar on a terminal, else now and then a line."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

QUIET = 30  # seconds between two lines where there is no terminal


class Progress:
    def __init__(self, steps):
        console = Console(stderr=True)
        self._steps, self._done, self._skipped = steps, 0, 0
        self._cell = self._what = ""
        self._begin = time.monotonic()
        self._last = 0.0
        self._bar = None
        if console.is_terminal:
            self._bar = Bar(TextColumn("{task.fields[cell]}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(),
                            TimeRemainingColumn(), TextColumn("{task.fields[what]}"), console=console)
            self._task = self._bar.add_task("", total=steps, cell="", what="")

    def __enter__(self):
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar:
            self._bar.stop()

    def cell(self, name):
        self._cell = name
        self._show(force=True)

    def tell(self, what):
        self._what = what
        self._show()

    def skip(self, steps):
        """They were done before, and say nothing about how long others take."""
        self._skipped += steps
        self.advance(steps)

    def advance(self, steps):
        self._done += steps
        self._show()

    def _show(self, force=False):
        if self._bar:
            self._bar.update(self._task, completed=self._done, cell=self._cell, what=self._what)
            return
        now = time.monotonic()
        if force or now - self._last >= QUIET:
            self._last = now
            share = self._done / self._steps if self._steps else 1
            done = self._done - self._skipped
            eta = f", {(now - self._begin) * (self._steps - self._done) / done / 60:.0f} min to go" if done > 0 else ""
            print(f"{100 * share:3.0f} % {self._cell}: {self._what}{eta}", file=sys.stderr, flush=True)
