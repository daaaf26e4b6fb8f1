# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Answers to `gpumemshim ctl PID gc`, `backtrace` and `eval`: behind the package's _live.py, in one source. The main thread runs them between two bytecodes."""

import traceback

MOST_FRAMES = 100  # of a thread
PIECE = 900  # characters of a value in a line of the answer


def answer_gc():
    """Python's collector, then PyTorch's empty_cache(), with each device before and after."""
    torch = torch_of_the_program()
    before = bytes_of_devices(torch)
    collected = gc.collect()
    between = bytes_of_devices(torch)
    reason = why_the_cache_stays(torch)
    if not reason:
        torch._C._cuda_emptyCache()
    after = bytes_of_devices(torch)
    rows = [[("name", f"cuda:{number}"), ("allocated_before", one[0]), ("allocated_after", after[number][0]), ("reserved_before", one[1]), ("reserved_after", after[number][1])] for number, one in before.items() if one[1] or between[number][1]]
    return lines([("collected", collected), ("cache_kept", reason), ("rows", len(rows))], rows)


def why_the_cache_stays(torch):
    if not uses_cuda(torch):
        return "PyTorch has not used CUDA"
    if torch._C._cuda_isCurrentStreamCapturing():
        return "a CUDA graph is being captured, which cudaFree would end"
    return ""


def uses_cuda(torch):
    cuda = torch and sys.modules.get("torch.cuda")
    return bool(cuda) and cuda.__dict__.get("_initialized") is True


def bytes_of_devices(torch):
    """device -> (allocated, reserved) by PyTorch's own counters."""
    found = {}
    for number in range(torch._C._cuda_getDeviceCount()) if uses_cuda(torch) else ():
        try:
            stats = torch._C._cuda_memoryStats(number)
            found[number] = stats["allocated_bytes"]["all"]["current"], stats["reserved_bytes"]["all"]["current"]
        except Exception:  # a device that nobody used
            pass
    return found


def answer_backtrace():
    """The Python frames of all threads, innermost first; of a thread that waits in C, where it called that."""
    names = {}
    threading = sys.modules.get("threading")
    for number, thread in list(dict.items(threading.__dict__.get("_active", {}))) if threading else ():
        names[number] = text(attributes_of(thread).get("_name"))
    rows = []
    for number, frame in sorted(sys._current_frames().items(), key=lambda pair: names.get(pair[0]) != "MainThread"):
        name = names.get(number) or f"thread {number}"
        deep = 0
        while frame is not None and deep < MOST_FRAMES:
            code = frame.f_code
            if frame.f_globals is not globals():
                rows.append([("name", name), ("frame", f"{code.co_filename}:{frame.f_lineno} {getattr(code, 'co_qualname', code.co_name)}")])
                deep += 1
            frame = frame.f_back
    return lines([("rows", len(rows))], rows)


def answer_eval(source):
    """An expression's value, or nothing of a statement; what it raises is reported, and never raised in the program."""
    space, kind = sys.modules["__main__"].__dict__, "value"
    try:
        try:
            code = compile(source, "<gpumemshim ctl eval>", "eval")
        except SyntaxError:
            code = compile(source, "<gpumemshim ctl eval>", "exec")
        value = eval(code, space)
        shown = "" if value is None else repr(value)
    except BaseException as error:
        kind, shown = "error", "".join(traceback.format_exception_only(type(error), error)).strip()
    pieces = [part[at : at + PIECE] for part in shown.split("\n") for at in range(0, max(len(part), 1), PIECE)] if shown else []
    return lines([("kind", kind), ("rows", len(pieces))], [[("name", "line"), ("text", piece)] for piece in pieces])
