# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The verbs of Probing, of a local process:

    python -m gpumemshim.compat.probing PID inject
    python -m gpumemshim.compat.probing PID query "SELECT step, max(allocated) FROM python.torch_trace GROUP BY step"
    python -m gpumemshim.compat.probing PID eval "import torch; print(torch.cuda.memory_allocated())"
    python -m gpumemshim.compat.probing PID backtrace
    python -m gpumemshim.compat.probing PID memory

PID may also be a trace (query, memory). `eval` prints what the code printed, and of one expression its value, as Python's prompt does. In a program: query(sql), a Table of this process's own trace; inject(), which begins to record.
`eval` runs code in the other program, so only where that was started with GPUMEMSHIM_EVAL=1. Answers and exit codes are those of gpumemshim attach, sql and ctl.
"""

import ast
import contextlib
import os
import re
import sys
import tempfile

from gpumemshim import _answers, _program
from gpumemshim._attach import attach
from gpumemshim._error import GpumemError

VERBS = ("inject", "query", "eval", "backtrace", "memory")
# What `eval` runs there: statements, with what they print as the value of one expression.
RUNNER = """
import contextlib, io, traceback
with io.StringIO() as kept, contextlib.redirect_stdout(kept):
    try:
        exec(compile(code, "<probing eval>", kind), vars(__import__("__main__")))
    except Exception as error:
        kept.write(traceback.format_exc(limit=-1 if error.__traceback__.tb_next else 0))
    said = kept.getvalue()
"""
LONGEST = 1000  # bytes of a request to a recorded program: longer code goes through a file
FLAG = re.compile(r"--?[a-z][\w-]*(=.*)?$")


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


def kind_of(code):
    """How Python compiles it: "single" shows the value of one expression."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # which is reported where it runs
        return "exec"
    return "single" if len(body) == 1 and isinstance(body[0], ast.Expr) else "exec"


def expression_of(code, kind):
    """One expression that runs statements and is what they printed."""
    return f"(lambda scope: (exec({RUNNER!r}, scope), scope['said'])[1])({{'code': {code}, 'kind': {kind!r}}})"


@contextlib.contextmanager
def request_for(code):
    """The expression to ask for: with the code in it, or in a file of this user's for as long as it is asked."""
    request, kind = expression_of(repr(code), kind_of(code)), kind_of(code)
    if len(request.encode("utf-8", "replace")) <= LONGEST:
        yield request
        return
    with tempfile.NamedTemporaryFile("w", prefix="gpumemshim-eval-", suffix=".py", encoding="utf-8") as file:
        file.write(code)
        file.flush()
        yield expression_of(f"open({file.name!r}, encoding='utf-8').read()", kind)


def evaluate(endpoint, code):
    """What the code printed there, as it printed it. Returns 0, or 1 where nothing could be run."""
    with request_for(code) as request:
        answer = _program.ask("ctl", endpoint, "eval", request)
    if not answer["evaluated"]:
        print(answer["text"], end="")
        return 1
    print(ast.literal_eval(answer["text"].replace("\n", "")), end="")
    return 0


def ask_sql(trace, words):
    """As `gpumemshim sql`, with the query on standard input, where it may begin with a comment. Does not return."""
    texts = [place for place, word in enumerate(words) if not FLAG.match(word)]
    at = next((place for place in texts if words[place].strip() and not words[place].strip().isalnum()), texts[0] if texts else 0)  # "csv" is the value of a flag
    reading, writing = os.pipe()
    if os.fork() == 0:  # a pipe holds 64 KiB, and a query may be longer
        os.close(reading)
        with contextlib.suppress(OSError), open(writing, "wb") as out:
            out.write(words[at].encode("utf-8", "surrogateescape"))
        os._exit(0)
    os.close(writing)
    os.dup2(reading, 0)
    become("sql", trace, *words[:at], *words[at + 1 :])


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
            ask_sql(trace_of(endpoint), rest)
        if verb == "memory" and not endpoint.isdigit():
            become("report", endpoint, *rest)
        if verb == "eval":
            return evaluate(endpoint, rest[0])
        become("ctl", endpoint, verb, *rest)
    except GpumemError as error:
        print(error, file=sys.stderr)
        return error.code or 127
    return 0


if __name__ == "__main__":
    sys.exit(main())
