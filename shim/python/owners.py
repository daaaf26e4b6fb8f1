# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Who owns GPU memory at one moment: from the tensors that Python knows up to what keeps them, as far as a time limit allows. Compiled and run where it is
asked for, between two bytecodes of the main thread; it runs no code of the program, starts no collection, and keeps nothing (climb.h).

An owner is a way from a root: a module's global, a class, a function's closure, a variable of a function that runs. Where there is no root, only a cycle of
references keeps the tensor; where nothing in Python refers to it, C++ does. What was not reached is not reported.
"""

OWNER_SNAPSHOT, OWNER = 16, 17  # fields of trace.proto's Definitions
GLOBAL, CLASS, FUNCTION, RUNNING, CYCLE, NATIVE = 1, 2, 3, 4, 5, 6  # OwnerRoot
MOST_IN_A_MESSAGE = 850  # addresses
MOST_NATIVE = 2000  # tensors that C++ holds, of which the gradient is looked at
MOST_LINKS, MOST_LETTERS = 40, 400
MOST_FRAMES = 1000
TENSORS_PER_LOOK = 63
MEMBERS = ("._modules", "._parameters", "._buffers")
UNSEEN = (RUNNING, "", "", "", None)


references = dict.get(module_fields("sys"), "getrefcount")


def tell(torch, cause, limit_ns, collects):
    snapshot = Snapshot(torch, limit_ns)
    snapshot.take()
    snapshot.report(cause, collects)


def define_all(described, field, numbers):
    at = 0
    while at < numbers.__len__():
        record.define(OWNER, message(described + [(field, number) for number in numbers[at : at + MOST_IN_A_MESSAGE]]))
        at += MOST_IN_A_MESSAGE


class Snapshot:
    def __init__(self, torch, limit_ns):
        self.torch, self.limit_ns = torch, limit_ns
        self.started, self.began = record.clock(), record.work()
        self.deadline = self.began + limit_ns * 8 // 10  # what was found is to be named and let go of, too
        self.wanted, self.places = [], {}  # tensors in GPU memory; address of the tensor -> of its memory
        self.ends = {}  # address of a module's dictionary -> module
        self.pieces, self.graphs = Pieces(torch, self.ends), Graphs(torch, self.deadline + limit_ns // 2)
        self.ways = {}  # address of an object -> what leads to it; None: it is a root
        self.known = {}  # address of an object -> (root, file, name, path, container)
        self.groups = {}  # (root, file, name, path) -> [addresses of memory, container]
        self.unknown = {}  # addresses of objects of which it is not known who refers to them
        self.outside, self.held = {}, {}  # addresses: of what somebody unknown refers to; of what anything known does
        self.variables = None  # address of an object -> (frame, name): of functions that run; None: they were not looked at
        self.runs = True  # whether any function of the program does
        self.handled = 0  # address of what leads to the error whose except block runs
        self.cut = ""  # why something was left out

    # What is looked for.

    def take(self):
        self.find_tensors()
        for name, module in pairs(record.modules()):
            self.ends[address(fields(module))] = (fields(module), module)
        handled = dict.get(module_fields("sys"), "exc_info")()[1]
        if handled is not None:  # the interpreter alone refers to it; owner_words.cc knows the name
            named = {"__name__": "sys", "last_handled": handled}
            self.ends[address(named)] = (named, None)
            self.handled = address(named)
        climbed = record.climb(self.wanted, [globals for globals, _ in self.ends.values()], self.deadline)
        if climbed is None:
            self.cut = "this Python cannot be asked"
            return
        edges, outside, rest = climbed
        if rest:
            self.cut = "the time was over"
        self.look_at_frames()
        self.find_ways(edges, outside, rest)
        self.name_all()

    def look_at_frames(self):
        """Of functions that run. A debugger of the program writes variables back from a frame's dictionary, which is no time to look at it."""
        frames = [frame for frame in record.frames() if frame.f_code.co_filename != __file__]
        self.runs = frames.__len__() > 0
        trace, of_threads = dict.get(module_fields("sys"), "gettrace"), dict.get(module_fields("threading"), "_trace_hook")
        if trace is None or trace() is not None or of_threads is not None:
            return
        self.variables = {}
        for frame in frames[:MOST_FRAMES]:
            for name, value in variables_of(frame):
                self.variables.setdefault(address(value), (frame, name))

    def find_tensors(self):
        tensors = record.instances(self.torch.Tensor)
        if tensors is None:
            self.cut = "too many objects"
            return
        looked = 0
        for tensor in tensors:
            looked += 1
            if looked & TENSORS_PER_LOOK == 0 and record.work() > self.began + self.limit_ns // 3:
                self.cut = "too many tensors"
                break
            if self.torch.data_of(tensor) is tensor:
                is_cuda, place = self.torch.read(self.torch.of_place, tensor) or (False, 0)
                if is_cuda is True and place:
                    self.wanted.append(tensor)
                    self.places[address(tensor)] = place

    # From roots down.

    def find_ways(self, edges, outside, rest):
        children, holders = {}, []
        for each in outside:
            self.outside[address(each)] = True
        at, count = 0, edges.__len__()
        while at < count:
            holder, child = edges[at], edges[at + 1]
            known = children.get(address(holder))
            if known is None:
                known = children[address(holder)] = []
                holders.append(holder)
            known.append(child)
            self.held[address(child)] = True
            at += 2
        self.spread([each for each in holders if self.rank(each) == GLOBAL and address(each) != self.handled], children)
        self.spread([each for each in holders if self.rank(each) in (CLASS, FUNCTION)], children)
        self.spread(outside, children)
        self.spread([each for each in holders if address(each) == self.handled], children)
        for each in rest:
            self.unknown[address(each)] = True
        self.spread(rest, children)
        # Nobody but themselves refers to what is left.
        self.spread([each for each in holders if not is_plain_container(each) and not is_a(each, self.torch.Tensor)], children)
        self.spread(holders, children)

    def rank(self, thing):
        if address(thing) in self.ends:
            return GLOBAL
        if is_a(thing, type):
            return CLASS
        return FUNCTION if record.code(thing) is not None else 0

    def spread(self, roots, children):
        """Ways from these roots to all that has none yet, the shortest ones."""
        waiting = []
        for root in roots:
            if address(root) not in self.ways:
                self.ways[address(root)] = None
                waiting.append(root)
        at = 0
        while at < waiting.__len__():
            holder = waiting[at]
            at += 1
            for child in children.get(address(holder), ()):
                if address(child) not in self.ways:
                    self.ways[address(child)] = holder
                    waiting.append(child)

    # In words.

    def name_all(self):
        natives = looked = 0
        for tensor in self.wanted:
            looked += 1
            if looked & TENSORS_PER_LOOK == 0 and record.work() > self.deadline + self.limit_ns // 3:
                self.cut = "the time was over"
                return
            place = address(tensor)
            if place in self.held or self.variable(tensor):
                self.add(self.path_to(tensor) if place in self.ways else UNSEEN, tensor)
            elif place in self.unknown:
                self.add(UNSEEN, tensor)
            else:
                natives += 1
                self.add(self.native(tensor) if natives < MOST_NATIVE else self.nobody(), tensor)

    def variable(self, thing):
        return self.variables and self.variables.get(address(thing))

    def add(self, owner, tensor):
        group = self.groups.setdefault(owner[:4], ([], owner[4], []))
        group[0].append(self.places[address(tensor)])
        if owner is not UNSEEN and owner[0] != NATIVE:
            group[2].append(tensor)

    def native(self, tensor):
        """Nothing that Python's collector knows refers to it."""
        (leaf,) = self.torch.read(self.torch.of_leaf, tensor) or (None,)
        (gradient,) = (self.torch.read(self.torch.of_gradient, tensor) if leaf is True else None) or (None,)
        if is_a(gradient, self.torch.Tensor):
            (graph,) = self.torch.read(self.torch.of_graph, gradient) or (None,)
            if graph is not None:
                return NATIVE, "", "", "grad.grad_fn", None
        return self.nobody()

    def nobody(self):
        """A value that a function works with at this moment is in none of its variables."""
        return (RUNNING if self.runs else NATIVE), "", "", "", None

    def path_to(self, thing):
        chain = []
        while address(thing) not in self.known:
            above = self.ways.get(address(thing))
            if above is None or chain.__len__() == MOST_LINKS:
                self.known[address(thing)] = self.root(thing)
            else:
                chain.append(thing)
                thing = above
        while chain:
            child = chain.pop()
            self.known[address(child)] = self.step(self.ways[address(child)], child)
            thing = child
        return self.known[address(thing)]

    def step(self, holder, child):
        kind, file, name, path, container = self.known[address(holder)]
        if path.__len__() < MOST_LETTERS:
            piece = self.pieces.of(holder, child, self.ways.get(address(holder)))
            if container is None and piece in ("[*]", "{*}"):
                container = holder
            for members in MEMBERS:  # of an nn.Module
                if path[-members.__len__() :] == members and piece[:1] == "[":
                    path = path[: -members.__len__()]
                    piece = "." + piece[2:-2] if piece[:2] == "['" else piece
            path += piece[1:] if piece[:1] == "." and not path and kind != CYCLE else piece
        return kind, file, name, path, container

    def root(self, thing):
        kind = self.rank(thing)
        if kind == GLOBAL:
            attributes = self.ends[address(thing)][0]
            # Of __main__ the name of its file is taken away when it has run.
            file = text(dict.get(attributes, "__file__")) or text(field(dict.get(attributes, "__loader__"), "path"))
            return GLOBAL, file, text(dict.get(attributes, "__name__")), "", None
        if kind == CLASS:
            return CLASS, "", text(class_name(thing)), "", None
        if kind == FUNCTION:
            return FUNCTION, record.code(thing).co_filename, text(FUNCTION_NAME(thing)), "", None
        return self.rootless(thing)

    def rootless(self, thing):
        found = self.variable(thing)
        if found:
            code = found[0].f_code
            return RUNNING, code.co_filename, code.co_name, found[1], None
        if kind_name(thing) == "frame":  # of a function that runs
            return RUNNING, thing.f_code.co_filename, thing.f_code.co_name, "", None
        if address(thing) in self.unknown:
            return UNSEEN
        return (RUNNING if address(thing) in self.outside else CYCLE), "", kind_name(thing), "", None

    # Into the trace.

    def report(self, cause, collects):
        blocks = 0
        number = record.owners_taken() + 1
        owner_number = 0
        for (kind, file, name, path), (places, container, tensors) in self.groups.items():
            owner_number += 1
            blocks += places.__len__()
            described = [(1, number), (2, owner_number), (3, kind), (4, file), (5, name), (6, path)]
            if container is not None:
                described += [(7, kind_name(container)), (8, size_of(container))]
            define_all(described, 9, places)
            nodes = self.graphs.of(tensors) if kind != RUNNING or file else ()
            if nodes:
                owner_number += 1
                described[1], described[5] = (2, owner_number), (6, path + ".grad_fn")
                define_all(described, 10, nodes)
        took = record.clock() - self.started
        known = [(1, number), (2, self.started), (3, cause), (4, self.wanted.__len__()), (5, self.cut or self.graphs.cut), (6, took)]
        record.define(OWNER_SNAPSHOT, message(known + [(7, 0 if collects is None else 1 if collects else 2)]))
        record.owners_end(blocks, took)
