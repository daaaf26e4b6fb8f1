# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Magics of IPython and Jupyter: `%load_ext gpumemshim`, then `%%gpumemshim` before a cell, or `%gpumemshim` before a statement."""

import ast
import base64
import html

from gpumemshim._error import GpumemError
from gpumemshim._record import record
from gpumemshim._tables import human

LINES = 8
USAGE = """Usage: %%gpumemshim [-o FILE] [-q] [-r NAME]

Records the GPU memory of the cell and shows its timeline and its top lines.

  -o FILE    the trace; default as `gpumemshim run`
  -q         show nothing; the Recording is in the variable of -r
  -r NAME    keep the Recording in this variable: NAME.peak(), NAME.html("page.html")"""


def load(shell):
    """Registers the magics with an IPython shell."""
    shell.register_magic_function(lambda line, cell=None: run(shell, line, cell), "line_cell", "gpumemshim")


def run(shell, line, cell):
    """The magic itself: the cell runs as it would without it, its errors included."""
    from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

    @magic_arguments()
    @argument("-o", "--output", default=None, help="the trace; default as gpumemshim run")
    @argument("-q", "--quiet", action="store_true", help="show nothing")
    @argument("-r", "--result", default=None, help="keep the Recording in this variable")
    @argument("statement", nargs="*", help="of %%gpumemshim: the statement to record")
    def gpumemshim(_):
        """Records the GPU memory of a cell or statement, and shows its timeline and top lines."""

    options, statement = split(line) if cell is None else (line, cell)
    chosen = parse_argstring(gpumemshim, options)
    if cell is None and not statement.strip():
        print(USAGE)
        return None
    steps = compiled(shell, statement)
    recorder = record(chosen.output, name=f"In[{cell_number(shell)}]", keep=True)
    recording = recorder.__enter__()
    try:
        result = None
        for code in steps:
            result = eval(code, shell.user_global_ns, shell.user_ns)  # noqa: S307 (what the user typed)
    finally:
        recorder.__exit__(None, None, None)
        if chosen.result:
            shell.user_ns[chosen.result] = recording
        if not chosen.quiet:
            show(recording)
    return result


def cell_number(shell):
    """Of the cell that runs; shell.execution_count is already the next one's in newer versions."""
    return max(1, len(shell.user_ns.get("In", ())) - 1)


def compiled(shell, statement):
    """Code objects of a cell, as the shell itself makes them: what the last one returns is the cell's value. Tracebacks and stacks show its lines."""
    source = shell.transform_cell(statement)
    name = shell.compile.cache(source, cell_number(shell))
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    last = [ast.Expression(tree.body.pop().value)] if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else []
    return [shell.compile(tree, name, "exec"), *(shell.compile(each, name, "eval") for each in last)]


def split(line):
    """(options, statement) of a line magic: options stand first."""
    words, taken = line.split(" "), []
    while words:
        if words[0] in ("-q", "--quiet", ""):
            taken.append(words.pop(0))
        elif words[0] in ("-o", "--output", "-r", "--result") and len(words) > 1:
            taken += [words.pop(0), words.pop(0)]
        else:
            break
    return " ".join(taken), " ".join(words)


def show(recording):
    from IPython.display import display

    display(Shown(recording))


class Shown:
    """A recording as a notebook shows it; as text on a terminal."""

    def __init__(self, recording):
        self.recording = recording
        self.text, self.page = self.text_of(), None

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        if self.page is None:
            self.page = self.page_of()
        return self.page

    def text_of(self):
        """The sentence and the top lines; why there is no answer, where there is none."""
        try:
            return str(self.recording) if self.recording.trace is None else f"{self.recording}\n{self.recording.peak(top=LINES).lines}"
        except GpumemError as error:
            return f"gpumemshim: {error}"

    def page_of(self):
        """HTML: the sentence, the picture of the timeline, categories and lines of the peak. Nothing in it is loaded from elsewhere."""
        try:
            sentence = str(self.recording)
            if self.recording.trace is None:
                return f"<p>{html.escape(sentence)}</p>"
            peak = self.recording.peak(top=LINES)
            picture = base64.b64encode(self.recording.picture("timeline")).decode()
        except GpumemError as error:
            return f"<p>gpumemshim: {html.escape(str(error))}</p>"
        kinds = ", ".join(f"{html.escape(name.replace('_', ' '))} {human(size)}" for name, size in sorted(peak.categories.items(), key=lambda row: -row[1]))
        return (
            f'<div class="gpumemshim"><p>{html.escape(sentence)}</p>'
            f'<img alt="GPU memory over time" style="width:100%;max-width:720px" src="data:image/png;base64,{picture}">'
            f"<p>At the peak: {kinds}</p>{peak.lines._repr_html_()}</div>"
        )
