# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""walk_cost.py LIBRARY [WALKS]: what walking 10, 20 and 60 Python frames costs in this interpreter. One JSON line, ns a walk.

LIBRARY is libbench_walk_cost.so of the build. Each frame runs a function of its own, as a program's stack does.
"""

import ctypes
import json
import sys

DEPTHS = (10, 20, 60)


def chain(length, innermost):
    """`length` functions of one file, each calling the next, the last one calling `innermost`."""
    source = "".join(f"def step_{i}():\n    return step_{i + 1}()\n" for i in range(length))
    names = {f"step_{length}": innermost}
    exec(compile(source, "walk_cost_chain.py", "exec"), names)
    return names["step_0"] if length else innermost


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.WalkCost.restype = ctypes.c_double
    walks = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    # The lambda, main and <module> stand on the stack too.
    costs = {str(depth): round(chain(depth - 3, lambda: library.WalkCost(walks))(), 1) for depth in DEPTHS}
    print(json.dumps({"mode": "walk", "python": "%d.%d.%d" % sys.version_info[:3], "ns_a_walk": costs}))


if __name__ == "__main__":
    main()
