# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The modules below one, with their names, parameters and buffers: what named_modules(), named_parameters() and named_buffers() of nn.Module with
remove_duplicate=False say, read from the dictionaries _modules, _parameters and _buffers. A part of the helper.

A module that is held in many places has its first MOST_NAMES names, which are those that nn.Module's order gives; a module inside itself is passed by.
"""

MOST_NAMES = 9
MOST_VISITS, MOST_TENSORS = 200_000, 500_000
MOST_LETTERS = 1000  # of a name
MOST_NS = 2_000_000_000


class Walk:
    """The dictionaries of what is found: address -> (module or tensor, names)."""

    def __init__(self, torch, root):
        self.torch = torch
        self.modules, self.parameters, self.buffers = {}, {}, {}
        self.visits = self.members = 0
        self.cut = ""  # why something was left out
        self.deadline = record.clock() + MOST_NS
        waiting = [(root, "", None)]
        while waiting and self.may_go_on():
            place = waiting.pop()
            children = self.visit(*place)
            children.reverse()
            for name, child in children:
                waiting.append((child, name, place))

    def may_go_on(self):
        self.visits += 1
        if self.visits > MOST_VISITS or self.members > MOST_TENSORS:
            self.cut = "a model has more modules or tensors than are looked at"
        elif self.visits & 63 == 0 and record.clock() > self.deadline:
            self.cut = "a model took too long to look at"
        return not self.cut

    def visit(self, module, name, parent):
        """Its children, as (name, module)."""
        _, names = self.modules.setdefault(address(module), (module, []))
        if names.__len__() == MOST_NAMES:
            return []
        names.append(name)
        has = fields(module)
        prefix = name + "." if name else ""
        self.add(self.parameters, dict.get(has, "_parameters"), prefix)
        self.add(self.buffers, dict.get(has, "_buffers"), prefix)
        children = []
        if prefix.__len__() > MOST_LETTERS:
            self.cut = self.cut or "a model has modules too deep inside each other"
            return children
        for key, child in self.members_of(dict.get(has, "_modules")):
            if is_a(child, self.torch.Module) and not self.is_inside(child, module, parent):
                children.append((prefix + text(key), child))
        return children

    def is_inside(self, child, module, parent):
        while module is not child and parent is not None:
            module, _, parent = parent
        return module is child

    def add(self, found, mapping, prefix):
        for key, tensor in self.members_of(mapping):
            if is_a(tensor, self.torch.Tensor):
                _, names = found.setdefault(address(tensor), (tensor, []))
                if names.__len__() < MOST_NAMES:
                    names.append(prefix + text(key))
                self.members += 1

    def members_of(self, mapping):
        """Of a ScriptModule they are behind objects of PyTorch's own."""
        if is_a(mapping, dict):
            return pairs(mapping) if dict.__len__(mapping) < MOST_TENSORS else ()
        script, kind = module_fields("torch.jit._script"), type(mapping)
        if kind is dict.get(script, "OrderedModuleDict"):
            return pairs(field(mapping, "_python_modules"))
        if kind is dict.get(script, "OrderedDictWrapper"):
            held = field(mapping, "_c")
            if type(held) is dict.get(self.torch.c, "ParameterDict") or type(held) is dict.get(self.torch.c, "BufferDict"):
                return elements(type(held).items(held))
        return ()


class Torch:
    """What is needed of PyTorch, as far as it is imported. `Tensor` is None before."""

    def __init__(self):
        self.c = module_fields("torch._C")
        self.Tensor = dict.get(module_fields("torch"), "Tensor")
        module, parameter = module_fields("torch.nn.modules.module"), module_fields("torch.nn.parameter")
        self.Module = dict.get(module, "Module")
        self.Parameter = dict.get(parameter, "Parameter")
        self.Uninitialized = dict.get(parameter, "UninitializedTensorMixin")
        if not (is_a(self.Tensor, type) and is_a(self.Module, type) and is_a(self.Parameter, type)):
            self.Tensor = None
            return
        self.call = record.code(class_fields(self.Module).get("_wrapped_call_impl"))
        base = class_bases(self.Tensor)[1]  # TensorBase, in C
        guard, self.count_modes = dict.get(self.c, "DisableTorchFunction"), dict.get(self.c, "_len_torch_function_stack")
        place = dict.get(self.c, "_data_address")  # of the storage
        self.has_storage_address = place is not None

        def getters(*names):
            """With a guard against __torch_function__, and without."""
            found = [defined(base, name) for name in names]
            found = [each.__get__ if is_getter(each) else each for each in found]
            if names[-1] == "data_ptr" and self.has_storage_address:
                found[-1] = place
            return (guard, *found), (None, *found)

        self.of_wrapper = getters("requires_grad", "shape")
        self.of_storage = getters("is_cuda", "numel", "element_size", "storage_offset", "data_ptr")
        self.of_both = getters("requires_grad", "shape", "is_cuda", "numel", "element_size", "storage_offset", "data_ptr")
        self.of_kind = getters("dtype", "device")
        self.of_layout = getters("_cdata")
        self.of_place = getters("is_cuda", "data_ptr")
        self.of_leaf = getters("is_leaf")
        self.of_graph = getters("grad_fn")
        self.of_gradient = getters("grad")
        self.no_dispatch = defined(self.Tensor, "__torch_dispatch__")
        self.has_modes = True

    def look_for_modes(self):
        """Whether a TorchFunctionMode of the program is asked about each attribute now; on this thread, until we return."""
        self.has_modes = self.count_modes is None or self.count_modes() != 0

    def read(self, getters, tensor):
        """() where nothing can be read."""
        kind = type(tensor)
        needs_guard = self.has_modes or kind is not self.Tensor and kind is not self.Parameter
        return record.read(getters[0 if needs_guard else 1], tensor) or ()

    def read_data(self, tensor, data):
        """(requires_grad, shape, is_cuda, elements, bytes of one, offset, address)"""
        if data is tensor:
            return self.read(self.of_both, tensor)
        return self.read(self.of_wrapper, tensor) + self.read(self.of_storage, data)

    def attribute(self, tensor, name):
        """Of its own dictionary, which is not made for that."""
        kind = type(tensor)
        return record.attribute(tensor, name) if kind is self.Parameter or defined(kind, name) is None else None

    def data_of(self, tensor):
        """The tensor that has its data: of a DTensor the local one. None for one whose class decides itself what its size and place are."""
        kind = type(tensor)
        if kind is self.Tensor or kind is self.Parameter:
            return tensor
        if self.Uninitialized is not None and is_a(tensor, self.Uninitialized):
            return None
        if defined(kind, "__torch_dispatch__") is self.no_dispatch:
            return tensor
        if class_name(kind) == "DTensor" and dict.get(module_fields(module_name(kind)), "DTensor") is kind:
            local = slot(tensor, "_local_tensor")
            return local if type(local) is self.Tensor or type(local) is self.Parameter else None
        return None
