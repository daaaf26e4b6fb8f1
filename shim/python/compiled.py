# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What files that torch.compile generated were made from: a part of the helper.

PyTorch keeps it for its own profiler: PyCodeCache.linemaps has, for each generated file, where a piece of it begins and the lines of the program behind
the piece, as the text of a traceback. That text may be of an earlier run, out of PyTorch's cache on the disk, and the program have changed since: a line
counts where the source that the interpreter read reads the same, in `linecache`, where PyTorch looked it up while it compiled. Which module a line runs in
is known by the functions of the modules' classes: all modules that it may be have a nearest one around them, which is named. Nothing of PyTorch is called.
"""

COMPILED_FILE = 18  # field of trace.proto's Definitions
MOST_PIECES, PIECES_AT_ONCE = 50_000, 64  # of all files; in one message
MOST_SOURCES = 16  # lines of a piece
RESUMPTION = "torch_dynamo_resume_in_"
MOST_BYTES = 8192  # of a message: ring.h's kMaxReadyBytes


def lines_of(trace):
    """(file, line, function, source) of a traceback's text, innermost first."""
    found, place = [], None
    for each in trace.splitlines():
        if each[:1] not in (" ", "\t"):
            break  # behind it: why a node was added, with another traceback
        begin, named, rest = each.strip().partition('File "')
        file, is_line, rest = rest.partition('", line ')
        number, is_function, function = rest.partition(", in ")
        if not begin and named and is_line and is_function and number.isdigit() and number.__len__() < 9:
            place = file, int(number), function
        elif place is not None:
            found.append(place + (each.strip(),))
            place = None
    found.reverse()
    return found[: MOST_SOURCES - 1] + found[MOST_SOURCES - 1 :][-1:]


def plain_name(function):
    """Of a function that PyTorch made of a part of another one: that one's."""
    while function.startswith(RESUMPTION) and "_at_" in function:
        function = function[RESUMPTION.__len__() :].rpartition("_at_")[0]
    return function


def last_part(path):
    return path.rpartition("/")[2]


class Sources:
    """Lines of the program as `linecache` has them."""

    def __init__(self):
        self.files, self.found = {}, {}  # last part of a path -> [(path, lines)]; what was asked -> answer
        for path, entry in pairs(dict.get(module_fields("linecache"), "cache")):
            if type(path) is str and type(entry) is tuple and entry.__len__() == 4 and type(entry[2]) is list:
                self.files.setdefault(last_part(path), []).append((path, entry[2]))

    def now(self, file, line, source):
        """(file, line) of the source as it is now; None where that is not sure."""
        asked = (file, line, source)
        if asked not in self.found:
            self.found[asked] = self.look(*asked)
        return self.found[asked]

    def look(self, file, line, source):
        places = []
        for path, lines in self.files.get(last_part(file), ()):
            if path == file and line <= lines.__len__() and text(lines[line - 1]).strip() == source:
                return file, line
            number = 0
            for each in lines:
                number += 1
                if text(each).strip() == source:
                    places.append((path, number))
        return places[0] if places.__len__() == 1 else None


class Functions:
    """Those of the classes of all modules that have names, and whose they are."""

    def __init__(self, helper):
        self.sources = Sources()
        # (file, name) -> {(first line, qualified name): numbers of modules}
        self.of_line, self.names, self.numbers = {}, {}, {}
        of_class = {}
        for number, place in helper.named.items():
            reference = helper.modules.get(number)
            module = reference and reference()
            if module is not None and type(place) is tuple:
                self.names[number] = place
                self.numbers[place] = number
                kind = type(module)
                of_class.setdefault(address(kind), (kind, []))[1].append(number)
        for kind, numbers in of_class.values():
            self.add(kind, numbers, helper.torch.Module)

    def add(self, kind, numbers, end):
        for each in class_bases(kind):
            if each is end:
                return
            for value in list(class_fields(each).values()):
                code = record.code(value)
                if code is not None:
                    name = text(class_name(each)) + "." + code.co_name
                    place = self.of_line.setdefault((code.co_filename, code.co_name), {})
                    place.setdefault((code.co_firstlineno, name), []).extend(numbers)

    def at(self, file, line, function):
        """(qualified name, numbers of the modules whose class has the function): the last function of that name that begins before the line."""
        best = (0, function)
        found = self.of_line.get((file, function), {})
        for first, name in found:
            if best[0] < first <= line:
                best = (first, name)
        return best[1], found.get(best, [])

    def current(self, sources):
        """As they are now, without callers that are not sure; none where the first or the last is not."""
        current, place = [], None
        for file, line, function, source in sources:
            place = self.sources.now(file, line, source)
            if place is not None:
                current.append(place + (plain_name(function),))
            elif not current:
                return []
        return current if place is not None else []

    def describe(self, sources):
        """The lines with qualified names, and the number of the innermost module that contains all that the innermost line may be in; 0: not known."""
        within, module, described = None, 0, []
        for file, line, function in self.current(sources)[::-1]:
            name, numbers = self.at(file, line, function)
            described.append((file, line, name))
            inside = [number for number in numbers if within is None or self.is_inside(self.names[number], within)]
            if inside:
                within = [self.names[number] for number in inside]
                module = self.around(within)
        return described[::-1], module

    def is_inside(self, place, others):
        root, name = place
        for each_root, each in others:
            if root == each_root and (not each or name == each or name.startswith(each + ".")):
                return True
        return False

    def around(self, places):
        root, name = places[0]
        parts = name.split(".") if name else []
        for each_root, each in places[1:]:
            if each_root != root:
                return 0
            common, others = 0, each.split(".") if each else []
            while common < parts.__len__() and common < others.__len__() and parts[common] == others[common]:
                common += 1
            parts = parts[:common]
        return self.numbers.get((root, ".".join(parts)), 0)


class CompiledFiles:
    def __init__(self):
        self.told = {}  # paths
        self.count = 0  # of the table, when it was looked at last
        self.left = MOST_PIECES
        self.graphs = Graphs()  # graphs.py

    def renew(self):
        self.told.clear()
        self.graphs.renew()
        self.count = 0
        self.left = MOST_PIECES

    def look(self, helper):
        files = [(path, [lines, traces]) for path, lines, traces in self.graphs.files()] + self.inductor_files()
        functions = None
        for path, columns in files:
            pieces = self.pieces_of(columns)
            if type(path) is str and path not in self.told and pieces:
                self.told[path] = True
                functions = functions or Functions(helper)
                self.tell(path, pieces, functions)
        if self.left == 0:
            helper.left_out("lines of compiled code, of which there are too many")

    def inductor_files(self):
        """(path, its two columns) of all, where one came."""
        cache = dict.get(module_fields("torch._inductor.codecache"), "PyCodeCache")
        files = class_fields(cache).get("linemaps") if is_a(cache, type) else None
        if type(files) is not dict or dict.__len__(files) == self.count:
            return []
        self.count = dict.__len__(files)
        return list(pairs(files))

    def pieces_of(self, columns):
        """(first line, traceback) in order, without those that say what the one before says."""
        columns = elements(columns)
        if columns.__len__() != 2:
            return []
        lines, traces = elements(columns[0]), elements(columns[1])
        pieces, before = [], None
        while lines and lines.__len__() == traces.__len__() and self.left:
            line, trace = lines.pop(0), traces.pop(0)
            trace = trace if type(trace) is str else ""
            if type(line) is int and 0 < line < 1 << 31 and trace != before:
                pieces.append((line, trace))
                before = trace
        return pieces

    def tell(self, path, pieces, functions):
        at = 0
        while at < pieces.__len__() and self.left:
            some = pieces[at : at + PIECES_AT_ONCE][: self.left]
            at += some.__len__()
            self.left -= some.__len__()
            self.tell_some(path, some, functions)

    def tell_some(self, path, pieces, functions):
        texts, columns = {}, ([], [], [], [], [], [])
        lines, depths, modules, files, source_lines, names = columns
        for line, trace in pieces:
            sources, module = functions.describe(lines_of(trace))
            lines.append(line)
            depths.append(sources.__len__())
            modules.append(module)
            for file, source_line, name in sources:
                files.append(texts.setdefault(file, texts.__len__() + 1))
                source_lines.append(source_line)
                names.append(texts.setdefault(name, texts.__len__() + 1))
        told = message([(1, path)] + [(2, each) for each in texts])
        number = 3
        for column in columns:
            told += packed(number, column)
            number += 1
        half = pieces.__len__() // 2
        if told.__len__() <= MOST_BYTES:
            record.define(COMPILED_FILE, told)
        elif half:
            self.tell_some(path, pieces[:half], functions)
            self.tell_some(path, pieces[half:], functions)
