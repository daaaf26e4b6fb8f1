# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The shim's own walk against sys._getframe, in this interpreter, at many random points. Exit 0 when all are equal.

usage: walk_test.py <libshim_stack_walk_probe.so> [CHECKS [SEED]]
"""

import atexit
import ctypes
import os
import random
import sys
import threading

import walk_callbacks
import walk_check
import walk_shapes

checker = walk_check.Checker(sys.argv[1])
walk_callbacks.library = checker.library

# The word in the type of code objects that names their destructor, before the first walk.
destructor = ctypes.c_size_t.from_address(ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "PyCode_Type")) + 48)
own_destructor = destructor.value


def around(shape, inner):
    def run():
        shape(inner)
        return 1

    return run


def nest(shapes):
    """A function that runs the first shape, in it the second, ..., and in the last one the check."""
    inner = checker.check
    for shape in reversed(shapes):
        inner = around(shape, inner)
    return inner


def random_points(checks, seed):
    chooser = random.Random(seed)
    for shape in walk_shapes.SHAPES:
        before = checker.checks
        nest([shape])()
        if checker.checks == before:
            raise SystemExit(f"the shape {shape.__name__} checked nothing")
    while checker.checks < checks:
        nest(chooser.choices(walk_shapes.SHAPES, k=chooser.randint(2, 6)))()


def deep_recursion():
    def recurse(depth):
        return recurse(depth - 1) if depth else checker.check()

    for depth in (100, 511, 512, 513, 900):
        recurse(depth)


def variant(i):
    """(name, file, lines before the function, lines within): in turn one of them differs, the others stay as they are."""
    number = i // 4 % 1000
    return [(f"f{number:03}", "file", 0, 0), ("fun", f"file{number:03}", 0, 0), ("fun", "file", number % 50, 0), ("fun", "file", 0, number % 50)][i % 4]


def dropped_functions(count):
    """Each is freed before the next is made, so that the memory of code objects and of all they point to is used again. Nothing that stays is made
    in between, or that would not happen."""
    row_size = 4096
    rows = ctypes.create_string_buffer(count * row_size)
    sizes, addresses = [0] * count, [0] * count

    def walk(i):
        sizes[i] = checker.library.WalkInto(ctypes.byref(rows, i * row_size), row_size)

    for i in range(count):
        name, file, before, within = variant(i)
        names = {"walk": walk}
        exec(compile("\n" * before + f"def {name}(i):\n  x = 1\n" + "\n" * within + "  walk(i)\n", file, "exec"), names)
        addresses[i] = id(names[name].__code__)
        names[name](i)
        names.clear()  # the function holds it
    used = len(set(addresses))
    if used > count // 2:
        raise SystemExit(f"{used} addresses for {count} functions: hardly one was used twice, nothing was tested")
    for i in range(count):
        stack_hash, *text = ctypes.string_at(ctypes.byref(rows, i * row_size), sizes[i]).decode().split("\x1e")[:-1]
        got = [row.split("\x1f") for row in text]
        name, file, before, within = variant(i)
        got_place = [got[1][field] for field in (0, 1, 2, 4)]
        place = [name, file, str(before + 1), str(before + within + 3)]
        if got_place != place:
            checker.differ(f"dropped function {i}: got {got_place}, want {place}")
        checker.definitions(stack_hash, got)
    return used


def unwatched(count):
    """Where another tool took the destructor, nobody tells of dropped code."""
    watching = destructor.value
    if watching == own_destructor:
        raise SystemExit("dropped code is not watched")
    destructor.value = own_destructor
    dropped_functions(count)
    destructor.value = watching


def threads():
    running = [threading.Thread(target=nest([walk_shapes.recursion, walk_shapes.generator])) for _ in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def forked_child():
    child = os.fork()
    if child == 0:
        before = len(checker.differences)
        walk_shapes.thread(nest([walk_shapes.generator]))
        nest([walk_shapes.coroutine])()
        os._exit(len(checker.differences) - before)
    if os.waitpid(child, 0)[1] != 0:
        checker.differ("in a forked child")


def subinterpreter():
    """Where the interpreter of the walk is another one than that of the thread, the walk shows one of them whole, never a mixture."""
    read_end, write_end = os.pipe()
    script = (
        "import ctypes, os\nbuffer = ctypes.create_string_buffer(1 << 15)\n"
        f"size = ctypes.CDLL({sys.argv[1]!r}).WalkInto(buffer, len(buffer))\nos.write({write_end}, buffer.raw[:size])\n"
    )
    try:
        import _interpreters as interpreters
        identity = interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters
        identity = interpreters.create(isolated=False)
    interpreters.run_string(identity, script)
    rows = [row.split("\x1f")[0] for row in os.read(read_end, 1 << 16).decode().split("\x1e")[1:-1]]
    interpreters.destroy(identity)
    own, outer = rows[:1] == ["<module>"], rows[:1] == ["subinterpreter"]
    if not own and not outer:
        checker.differ(f"in a sub-interpreter: {rows}")
    return "its own frames" if own else "the frames that it was started from"


def main():
    checks = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    random_points(checks, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    deep_recursion()
    addresses = dropped_functions(checks)
    unwatched(checks)
    threads()
    forked_child()
    shown = subinterpreter()
    checker.finish()
    version = "%d.%d.%d" % sys.version_info[:3]
    debug = " (debug build)" if hasattr(sys, "gettotalrefcount") else ""
    greenlets = "with greenlets" if walk_shapes.greenlet else "greenlet is not installed here"
    print(f"python {version}{debug}: {checker.checks} stacks of {checker.frames} frames equal, {len(walk_shapes.SHAPES)} shapes, {greenlets}")
    print(f"  {checks} functions at {addresses} addresses told apart; a sub-interpreter shows {shown}")
    atexit.register(ending)
    for _ in range(2):
        threading.Thread(target=checker.library.WalkOn, daemon=True).start()


def ending():
    checker.check()
    if checker.differences:
        print("\n".join(checker.differences), flush=True)
        os._exit(1)


class AtTheVeryEnd:
    """Walks while the interpreter takes itself apart, under threads that are in C code and walk too."""

    def __init__(self):
        self.buffer, _ = checker.walk()
        self.walk = checker.library.WalkInto

    def __del__(self):
        self.walk(self.buffer, len(self.buffer))


last = AtTheVeryEnd()
main()
