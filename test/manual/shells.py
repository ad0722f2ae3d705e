"""Has a shell complete command lines, with the completions of this tree."""

import functools
import os
import re
import shutil
import subprocess
import tempfile

import program  # also for where the next ones lie
import workspace
from until import until

FOLDER = os.path.join(program.ROOT, "completions")

# Reads of stdin for each line: the line, and its words as bash divides it; prints what bash would be given.
BASH = r"""
source "$1"
compopt() { :; }
while IFS= read -r COMP_LINE && IFS=$'\t' read -ra COMP_WORDS; do
  if [[ $COMP_LINE == *" " ]]; then COMP_WORDS+=(""); fi
  COMP_POINT=${#COMP_LINE} COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _lsmfs "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  if [ ${#COMPREPLY[@]} -gt 0 ]; then printf '%s\n' "${COMPREPLY[@]}"; fi
  echo "== end"
done
"""

FISH = r"""
source $argv[1]
while read -l line
    complete -C $line | string replace -r '\t.*' ''
    echo "== end"
end
"""

# A widget collects what the completion adds, in a terminal of zsh's own.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source '$1
zpty -r shell out '*READY*'
while IFS= read -r line; do
  zpty -w -n shell $'\C-u'$line$'\C-t'
  zpty -r shell out '*COLLECTED*'
  print "== end" >> $2
done
zpty -d shell
"""
ZSH_SETUP = r"""
PS1= PROMPT_EOL_MARK=
fpath=({folder} $fpath)
autoload -U compinit
compinit -C -d {dump}
compadd() {{
  # With -O, -A or -D it fills an array instead.
  if [[ ${{@[1,(i)(-|--)]}} != *-(O|A|D)\ * ]]; then
    local -a found
    builtin compadd -A found "$@"
    if [[ -n $found ]]; then print -rl -- ${{(Q)found}} >> {out}; fi
  fi
  builtin compadd "$@"
}}
collect() {{
  _main_complete
  compstate[insert]= compstate[list]=
  print COLLEC''TED
}}
zle -C collect complete-word collect
bindkey '^T' collect
bindkey '^U' kill-whole-line
print REA''DY
"""


def _answers(text, count):
    parts = text.split("== end\n")
    if len(parts) != count + 1:
        raise AssertionError(f"{len(parts) - 1} answers to {count} lines: {text[-2000:]}")
    return [part.splitlines() for part in parts[:-1]]


def _run(words, text, **more):
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=60, **more)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{words[0]}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def bash(lines, **more):
    def words(line):
        return re.findall(r"[=:]+|(?:\\.|[^\s=:\\])+", line)
    text = "".join(line + "\n" + "\t".join(words(line)) + "\n" for line in lines)
    return _answers(_run(["bash", "--norc", "-c", BASH, "bash", os.path.join(FOLDER, "lsmfs.bash")], text, **more), len(lines))


def fish(lines, **more):
    text = "".join(line + "\n" for line in lines)
    return _answers(_run(["fish", "--no-config", "-c", FISH, os.path.join(FOLDER, "lsmfs.fish")], text, **more), len(lines))


@functools.cache
def _found():
    """A folder for what compinit finds, for which it reads a thousand files."""
    return tempfile.TemporaryDirectory()


def forget():
    """To be called by whoever has asked zsh."""
    _found().cleanup()
    _found.cache_clear()


def zsh(lines, cwd, **more):
    with tempfile.TemporaryDirectory() as place:
        setup, out = os.path.join(place, "setup"), os.path.join(place, "out")
        with open(setup, "w", encoding="utf-8") as file:
            file.write(ZSH_SETUP.format(folder=FOLDER, out=out, dump=os.path.join(_found().name, "dump")))
        _run(["zsh", "-f", "-c", ZSH, "zsh", setup, out], "".join(line + "\n" for line in lines), cwd=cwd, **more)
        # Told to end, what runs in the terminal takes a moment.
        until(lambda: not workspace.processes_of(cwd, shutil.which("zsh")), "the end of the shell in the terminal")
        with open(out, encoding="utf-8") as file:
            return _answers(file.read(), len(lines))


SHELLS = {"bash": bash, "fish": fish, "zsh": zsh}
