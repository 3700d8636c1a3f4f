#!/usr/bin/env python3
"""Manual pages and completions for bash and zsh, made from what the command itself says: shell_files.py COMMAND OUT

Writes OUT/man1/*.1, OUT/bash/swapadvisor and OUT/zsh/_swapadvisor."""

import os
import re
import subprocess
import sys


def help_of(command, *words):
    return subprocess.run([command, *words, "--help"], capture_output=True, text=True, check=True).stdout


def roff(text):
    """Lines as they are, safe from the formatter."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def manual(name, summary, text, others):
    usage, _, rest = text.partition("\n\n") if text.lower().startswith("usage") else ("", "", text)
    page = [f'.TH "{name.upper()}" 1 "" "SwapAdvisor"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}"]
    if usage:
        page += [".SH SYNOPSIS", ".nf", roff(re.sub("^usage: ", "", usage.strip(), flags=re.I)), ".fi"]
    page += [".SH DESCRIPTION", ".nf", roff(rest.strip()), ".fi", ".SH SEE ALSO", roff(", ".join(f"{other}(1)" for other in others))]
    return "\n".join(page) + "\n"


def options_of(text):
    """(names, takes a value, meaning) of each option in a help text."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^  ((?:-\w,)?--?[\w-]+)(?: (\S+)(?: REQUIRED| \.\.\.)?)?(?:\s{2,}(.*))?$", line)
        if match:
            found.append((match[1].split(","), bool(match[2]), (match[3] or "").strip()))
    return found


def bash(commands):
    cases = "".join(f"        {name}) words='{' '.join(n for names, _, _ in options for n in names)}' ;;\n"
                    for name, _, options in commands)
    names = " ".join(name for name, _, _ in commands)
    return f"""# Completion of swapadvisor for bash.
_swapadvisor() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{names} --help --version" -- "$current"))
        return
    fi
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [ "${{COMP_WORDS[i]}}" = -- ]; then _command_offset $((i + 1)); return; fi
    done
    case $previous in
        --planner) COMPREPLY=($(compgen -W "ga fast belady-prefetch belady lru none" -- "$current")); return ;;
        --timing) COMPREPLY=($(compgen -W "auto cupti events" -- "$current")); return ;;
    esac
    case ${{COMP_WORDS[1]}} in
{cases}    esac
    case $current in
        -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
        *) COMPREPLY=($(compgen -f -- "$current")) ;;
    esac
}}
complete -o filenames -F _swapadvisor swapadvisor
"""


def zsh(commands):
    def quoted(text):
        return re.sub(r"[\[\]:']", " ", text)

    def specification(options):
        for names, takes_value, meaning in options:
            for name in names:
                yield f"'{name}[{quoted(meaning)}]{':value:_files' if takes_value else ''}'"

    list_of = "\n".join(f"        '{name}:{quoted(summary)}'" for name, summary, _ in commands)
    cases = "".join(f"        {name}) _arguments {' '.join(specification(options))} '*::file:_files' ;;\n" for name, _, options in commands)
    return f"""#compdef swapadvisor
_swapadvisor() {{
    local -a commands
    commands=(
{list_of}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}    esac
}}
_swapadvisor "$@"
"""


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: shell_files.py COMMAND OUT")
    command, out = sys.argv[1:]
    top = help_of(command)
    listed = re.findall(r"^  (\w+)\s{2,}(.*)$", top.partition("commands:\n")[2].partition("\n\n")[0], re.M)
    pages = ["swapadvisor"] + [f"swapadvisor-{name}" for name, _ in listed]
    commands = [(name, summary, options_of(help_of(command, name))) for name, summary in listed]
    files = {"man1/swapadvisor.1": manual("swapadvisor", "trains models that are larger than the GPU's memory", top, pages[1:]),
             "bash/swapadvisor": bash(commands), "zsh/_swapadvisor": zsh(commands)}
    for name, summary in listed:
        files[f"man1/swapadvisor-{name}.1"] = manual(f"swapadvisor-{name}", summary, help_of(command, name), pages[:1])
    for path, text in files.items():
        path = os.path.join(out, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


main()
