# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Completions of gpumemshim for bash, zsh and fish, made of what its own --help lists: commands, and the flags of each.

    commands = read("build/release/bin/gpumemshim")
    bash(commands), zsh(commands), fish(commands)     the texts of the three files
"""

import dataclasses
import re
import subprocess

COMMAND = re.compile(r"^(?:[A-Z][a-z]+)? +([a-z]+) {2,}(\S.*)$", re.M)
FLAG = re.compile(r"^  ((?:--?[\w-]+, )*--?[\w-]+)(?: ([A-Z][^ ]*))? +(\S.*)$")
EXAMPLE = re.compile(r"^  ([a-z]+) {2,}\S", re.M)
# What follows is another program's command line.
TAKES_COMMAND = ("run", "plan", "doctor", "simulate", "sweep", "bisect", "replay")


@dataclasses.dataclass
class Flag:
    names: list  # ["-o", "--output"]
    value: str  # "FILE"; "" of a switch
    about: str
    choices: list = dataclasses.field(default_factory=list)  # values that are known


@dataclasses.dataclass
class Command:
    name: str
    about: str
    flags: list
    sections: list = dataclasses.field(default_factory=list)  # of the report: commands that its arguments may begin with


def text_of(gpumem, *arguments):
    return subprocess.run([gpumem, *arguments, "--help"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def flags_of(text):
    rows = (FLAG.match(line) for line in text.rpartition("\nFlags:\n")[2].splitlines())
    return [Flag(row[1].split(", "), row[2] or "", row[3]) for row in rows if row]


def read(gpumem):
    """The commands in the order of --help, and the sections of the report. Raises CalledProcessError where gpumemshim does not run."""
    sections = COMMAND.findall(text_of(gpumem, "report"))
    commands = [Command(name, about, flags_of(text_of(gpumem, name))) for name, about in COMMAND.findall(text_of(gpumem)) + sections]
    next(command for command in commands if command.name == "report").sections = [name for name, _ in sections]
    listed = subprocess.run([gpumem, "report", "--example"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    for flag in (flag for command in commands for flag in command.flags if flag.names == ["--example"]):
        flag.choices = EXAMPLE.findall(listed)
    return commands


def bash(commands):
    cases = "".join(f"    {command.name}) flags='{' '.join(name for flag in command.flags for name in flag.names)}' words='{' '.join(command.sections)}' ;;\n" for command in commands)
    names = " ".join(command.name for command in commands)
    examples = next((" ".join(flag.choices) for command in commands for flag in command.flags if flag.choices), "")
    return f"""# gpumemshim's completion for bash. Made of gpumemshim --help.
_gpumemshim() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} flags='' words='' i
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{names} help --help --version' -- "$cur")
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [ "${{COMP_WORDS[i]}}" = -- ]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); else compopt -o default; fi
      return
    fi
  done
  if [ "${{COMP_WORDS[COMP_CWORD - 1]}}" = --example ]; then
    mapfile -t COMPREPLY < <(compgen -W '{examples}' -- "$cur")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}    help) flags='{names}' words='{names}' ;;
  esac
  case $cur in
    -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur") ;;
    *) [ -z "$words" ] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
  esac
}}
complete -o bashdefault -o default -F _gpumemshim gpumemshim
"""


def zsh_quoted(text, specials):
    """Within single quotes, with what _arguments and _describe would read as their own."""
    return "".join("\\" + letter if letter in specials else letter for letter in text).replace("'", "'\\''")


def zsh_specs(flag):
    about = zsh_quoted(flag.about, "[]:\\")
    wanted = f"({' '.join(flag.choices)})" if flag.choices else "_files"
    value = f":{flag.value}:{wanted}" if flag.value else ""
    return [f"'*{name}[{about}]{value}'" for name in flag.names]


def zsh(commands):
    listed = "".join(f"    '{command.name}:{zsh_quoted(command.about, ':')}'\n" for command in commands)
    cases = ""
    for command in commands:
        last = "'*::command: _normal'" if command.name in TAKES_COMMAND else "'*:file:_files'"
        specs = " \\\n      ".join([spec for flag in command.flags for spec in zsh_specs(flag)] + [last])
        cases += f"  {command.name})\n    _arguments -S \\\n      {specs}\n    ;;\n"
    return f"""#compdef gpumemshim
# gpumemshim's completion for zsh. Made of gpumemshim --help.
local -a commands
if (( CURRENT == 2 )); then
  commands=(
{listed}  )
  _describe command commands
  return
fi
local command=$words[2]
shift words
(( CURRENT -= 1 ))
case $command in
{cases}  *) _files ;;
esac
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands):
    lines = ["# gpumemshim's completion for fish. Made of gpumemshim --help."]
    for command in commands:
        lines.append(f"complete -c gpumemshim -n __fish_use_subcommand -f -a {command.name} -d {fish_quoted(command.about)}")
        for flag in command.flags:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
            value = f" -x -a {fish_quoted(' '.join(flag.choices))}" if flag.choices else " -r" if flag.value else ""
            lines.append(f"complete -c gpumemshim -n '__fish_seen_subcommand_from {command.name}' {names}{value} -d {fish_quoted(flag.about)}")
    return "\n".join(lines) + "\n"
