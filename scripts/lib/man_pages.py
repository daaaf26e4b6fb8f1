# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Manual pages of gpumemshim's commands, made of docs/commands by go-md2man (Debian's package of that name).

    pages = made(pathlib.Path("docs/commands"), {"report": "one screen"}, "0.1.0")     {"gpumemshim-report.1": "...", ...}; {} without go-md2man
"""

import re
import shutil
import subprocess

LINK = re.compile(r"!?\[([^][]*)\]\([^)\s]*\)")
OVERVIEW = "GPU memory profiler for PyTorch and CUDA"


def without_links(text):
    """A terminal cannot follow them: their text stays, where it names a document beside its path."""
    return LINK.sub(r"\1", text)


def source(name, about, markdown, version):
    """The page as go-md2man wants it: NAME, SYNOPSIS (the code block that each document begins with), then the document."""
    lines = without_links(markdown).splitlines()
    body = lines[1:] if lines[:1] and lines[0].startswith("# ") else lines
    while body and not body[0].strip():
        body.pop(0)
    synopsis = []
    while body and body[0].startswith("    "):
        synopsis.append(body.pop(0))
    parts = [f'% {name.upper()} 1 "" "gpumemshim {version}" "gpumemshim"', "", "# NAME", "", f"{name} - {about}", ""]
    if synopsis:
        parts += ["# SYNOPSIS", "", *synopsis, ""]
    fenced = False
    parts += ["# DESCRIPTION", ""]
    for line in body:
        fenced ^= line.startswith("```")
        parts.append(line[1:] if line.startswith("##") and not fenced else line)
    return "\n".join(parts) + "\n"


def made(folder, about, version):
    """One page a document; README.md, the list of all commands, is gpumemshim(1). Raises CalledProcessError where the tool fails."""
    tool = shutil.which("go-md2man")
    if tool is None:
        return {}
    pages = {}
    for document in sorted(folder.glob("*.md")):
        command = "" if document.stem == "README" else document.stem
        name = f"gpumemshim-{command}" if command else "gpumemshim"
        text = source(name, about.get(command, OVERVIEW) if command else OVERVIEW, document.read_text(encoding="utf-8"), version)
        pages[f"{name}.1"] = subprocess.run([tool], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.decode().replace("\\\\|", "|")  # a bar in a table
    return pages
