"""What a piece of work is, what its figures are, and what they are held to."""

import dataclasses
from collections.abc import Callable

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
BEST = "best peer"

# What is shown, by what a figure of one second, one byte, or one is then. All is kept in seconds, bytes, bytes a second.
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "MiB": 1 / MiB, "MiB/s": 1 / MiB, "1/s": 1.0, "x": 1.0}
SECONDS = ("s", "ms", "us")


def shown(value, unit):
    value *= UNITS[unit]
    return f"{value:.{3 if abs(value) < 1 else 2 if abs(value) < 100 else 0}f}"


@dataclasses.dataclass(frozen=True)
class Conditions:
    """What a budget can depend on."""

    device: str      # as --device has it
    latency0: bool   # --latency0
    cache: int       # the daemon's -o cache, bytes
    smaller: frozenset = frozenset()  # figures whose work is less than their budgets are about


@dataclasses.dataclass(frozen=True)
class Budget:
    """What lsmfs is held to: at most, of a figure of which more is better at least, `limit`. It is judged by medians, on the
    device that it is for."""

    limit: float | Callable[[Conditions], float]  # a ratio to `of`; without `of` as the figure is kept
    of: str = ""                                  # BEST or "ext4"
    device: str = "loop"

    def limit_under(self, conditions):
        """None: it says nothing about such a run."""
        if conditions.device != self.device:
            return None
        return self.limit(conditions) if callable(self.limit) else self.limit


AS_BEST = Budget(1.0, BEST)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A row of the table."""

    name: str
    unit: str
    what: str
    budget: Budget | None = None
    more_is_better: bool = False


@dataclasses.dataclass(frozen=True)
class Setting:
    """A number that can be set. `default`: as a person writes it."""

    name: str
    default: str
    what: str
    least: int = 1
    budget: str = "0"  # less than that, and the budgets of the piece are not tested


@dataclasses.dataclass(frozen=True)
class Piece:
    """Work on an empty file system that gives figures."""

    name: str
    run: Callable                                 # run(session): see session.Session
    figures: tuple[Figure, ...]
    inputs: tuple[str, ...] = ()                  # of inputs.Inputs
    tools: tuple[str, ...] = ()                   # programs that not every system has
    settings: tuple[Setting, ...] = ()
    room: Callable = lambda settings: 0           # room({setting: number}): bytes that lie on the device at most
    optional: bool = False                        # without what it needs, its rows say what that is, and all else is done
    lacks: Callable = lambda tree: ""             # lacks(--tree): what an optional one needs besides tools and is not there, in a few words
