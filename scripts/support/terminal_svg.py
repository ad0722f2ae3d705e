#!/usr/bin/python3
"""Makes an SVG of what a terminal shows: `tmux capture-pane -pe | scripts/support/terminal_svg.py TITLE > FILE.svg`.
Needs Debian's python3-rich."""

import io
import re
import sys

from rich.console import Console
from rich.text import Text

console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
for line in sys.stdin.read().rstrip("\n").split("\n"):
    console.print(Text.from_ansi(line), soft_wrap=True)
# Without its fonts, which a viewer would have to fetch.
sys.stdout.write(re.sub(r"\s*@font-face \{[^}]*\}", "", console.export_svg(title=sys.argv[1])))
