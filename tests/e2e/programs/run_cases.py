# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""run_cases.py FILE LOG SECONDS: runs the test cases of a unittest file and writes `begin CASE` and `end CASE OUTCOME` into LOG, a case at a time.

What LOG has already is not run again: a case that ended its process is distinguished from the others by its missing end, and the next call goes on after it. A
case that takes longer than SECONDS is stopped.
"""

import importlib.util
import pathlib
import signal
import sys
import unittest


class TooLong(BaseException):
    pass


def stop(*_):
    raise TooLong


def cases_of(suite):
    for each in suite:
        yield from cases_of(each) if isinstance(each, unittest.TestSuite) else (each,)


def outcome(case, seconds):
    result = unittest.TestResult()
    signal.alarm(seconds)
    try:
        case(result)
    except TooLong:
        return "too-long"
    finally:
        signal.alarm(0)
    for kind in ("errors", "failures", "skipped", "expectedFailures", "unexpectedSuccesses"):
        if getattr(result, kind):
            return kind
    return "passed"


def main():
    path, log, seconds = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    begun = {line.split()[1] for line in log.read_text().splitlines()} if log.exists() else set()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem], sys.argv[1:] = module, []
    spec.loader.exec_module(module)
    vars(module).pop("load_tests", None)  # PyTorch's refuses cases of a file that was not started as a script
    signal.signal(signal.SIGALRM, stop)
    with open(log, "a", encoding="utf-8") as file:
        for case in cases_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            name = case.id().split(".", 1)[1]
            if name in begun:
                continue
            print("begin", name, file=file, flush=True)
            print("end", name, outcome(case, seconds), file=file, flush=True)


if __name__ == "__main__":
    main()
