# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The verbs of Probing, of a local process:

    python -m gpumemshim.compat.probing PID inject
    python -m gpumemshim.compat.probing PID query "SELECT step, max(allocated) FROM python.torch_trace GROUP BY step"
    python -m gpumemshim.compat.probing PID eval "import torch; print(torch.cuda.memory_allocated())"
    python -m gpumemshim.compat.probing PID backtrace
    python -m gpumemshim.compat.probing PID memory

PID may also be a trace (query, memory). In a program: query(sql), a Table of this process's own trace; inject(), which begins to record.
`eval` runs code in the other program, so only where that was started with GPUMEMSHIM_EVAL=1. Answers and exit codes are those of gpumemshim attach, sql and ctl.
"""

import os
import sys

from gpumemshim import _answers, _program
from gpumemshim._attach import attach
from gpumemshim._error import GpumemError

VERBS = ("inject", "query", "eval", "backtrace", "memory")
# What `eval` runs there: statements, with what they print as the value of one expression.
RUNNER = """
import contextlib, io, traceback
with io.StringIO() as kept, contextlib.redirect_stdout(kept):
    try:
        exec(compile(code, "<probing eval>", "exec"), vars(__import__("__main__")))
    except Exception:
        kept.write(traceback.format_exc(limit=-1))
    said = kept.getvalue()
"""


def inject(output=None):
    """Begins to record this process; whether it does (gpumemshim.attach)."""
    return attach(output)


def query(sql, trace=None):
    """The rows of a query over this process's trace, or another's, as a Table; `python.torch_trace` has Probing's columns (docs/sql.md)."""
    return _answers.sql(sql, *([trace] if trace is not None else []))


def trace_of(endpoint):
    """The trace of a PID, with all that was recorded so far; what is a file already stays."""
    if not endpoint.isdigit():
        return endpoint
    _program.run("ctl", endpoint, "flush")
    trace = _program.ask("ctl", endpoint, "status").get("file")
    if not trace:
        raise GpumemError(f"process {endpoint} has recorded nothing so far")
    return trace


def expression_of(code):
    """One expression that runs statements and is what they printed."""
    return f"(lambda scope: (exec({RUNNER!r}, scope), scope['said'])[1])({{'code': {code!r}}})"


def become(*arguments):
    program = _program.find()
    sys.stdout.flush()
    os.execv(program, [program, *arguments])


def main(words=None):
    words = list(sys.argv[1:] if words is None else words)
    if len(words) < 2 or words[1] not in VERBS or (words[1] in ("query", "eval") and len(words) < 3):
        print(__doc__, file=sys.stderr)
        return 2
    endpoint, verb, *rest = words
    try:
        if verb == "inject":
            become("attach", endpoint, *rest)
        if verb == "query":
            become("sql", trace_of(endpoint), *rest)
        if verb == "memory" and not endpoint.isdigit():
            become("report", endpoint, *rest)
        if verb == "eval":
            become("ctl", endpoint, "eval", expression_of(rest[0]))
        become("ctl", endpoint, verb, *rest)
    except GpumemError as error:
        print(error, file=sys.stderr)
        return error.code or 127
    return 0


if __name__ == "__main__":
    sys.exit(main())
