# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What torch.fx generated, and from which lines of the program: a part of the helper.

The code of a GraphModule (torch.compile's `eager` and `aot_eager` backends run it as it is) is named `<eval_with_key>.7`. The module keeps which node of its
graph each line is of, and a node made while torch.compile looked on has the traceback of its operation. Nothing of PyTorch is called. Such modules are found
by a search through all objects, which is made only where torch.fx generated code since the last one, and a few times at most.
"""

MOST_GRAPH_SEARCHES, MOST_NODES = 4, 100_000


def part(thing, name):
    """An attribute: in its dictionary, or in a slot of its class, as PyTorch's version has it."""
    found = field(thing, name)
    return slot(thing, name) if found is None else found


def traces_of(graph):
    """The traceback of each node, in order; "" where it has none."""
    traces, root = [], part(graph, "_root")
    node = root and part(root, "_next")
    while node is not None and node is not root and traces.__len__() < MOST_NODES:
        meta = part(node, "meta")
        trace = dict.get(meta, "stack_trace") if is_a(meta, dict) else None
        traces.append("  " + trace if type(trace) is str and trace else "")  # lines_of wants the blanks that PyTorch may have cut off
        node = part(node, "_next")
    return traces


def lines_of_graph(module):
    """(file, first lines of pieces, their tracebacks), as PyCodeCache.linemaps has them of a file; None where nothing is known."""
    code = record.code(class_fields(type(module)).get("forward"))
    numbers = field(module, "_lineno_map")
    if code is None or not code.co_filename.startswith("<eval_with_key>") or not is_a(numbers, dict):
        return None
    traces = traces_of(field(module, "_graph"))
    lines, found = [], []
    for number, node in pairs(numbers):  # counted from the line of `def forward`
        if type(number) is int and type(node) is int and 0 < number and 0 <= node < traces.__len__():
            lines.append(code.co_firstlineno + number)
            found.append(traces[node])
    return code.co_filename, lines, found


class Graphs:
    def __init__(self):
        self.renew()

    def renew(self):
        self.count = 0  # of the files that torch.fx generated, when they were looked at last
        self.searches = MOST_GRAPH_SEARCHES

    def files(self):
        """Of all modules, where there is one that was not looked at; () else."""
        made = module_fields("torch.fx.graph_module")
        cache = field(dict.get(made, "_loader"), "eval_cache")
        count = dict.__len__(cache) if is_a(cache, dict) else 0
        kind = dict.get(made, "GraphModule")
        if count == self.count or self.searches == 0 or not is_a(kind, type):
            return ()
        self.count = count
        self.searches -= 1
        found = [lines_of_graph(module) for module in record.instances(kind) or ()]
        return [each for each in found if each is not None and any_text(each[2])]


def any_text(texts):
    for each in texts:
        if each:
            return True
    return False
