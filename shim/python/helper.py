# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of the recorder that runs in the program's own Python: it says what the objects are that frames and addresses name.

Runs between two bytecodes of the main thread, when a call of an nn.Module stands on a stack that the recorder cannot name (docs/attribution.md).
It imports nothing, changes nothing of the program but for two of PyTorch's own global hooks around Optimizer.step, and what fails in it is the
program's business nowhere. Objects are looked at without running code of the program (plain.py), as far as there are limits for (model.py). `record` is
the recorder: see inject.cc and objects.cc.

guard.py tells failures of ours from what is the program's.
"""

NN_MODULE, TENSOR_DEFINITION, OPTIMIZER = 12, 13, 14  # fields of trace.proto's Definitions
PARAMETER, BUFFER, GRADIENT, STATE, INPUT = 1, 2, 3, 4, 5  # TensorRole
TENSOR, OPTIMIZER_STEP = 44, 46  # EventKind
# Parts of names that wrappers add and nobody wrote.
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
PARALLEL = ("DistributedDataParallel", "DataParallel")
MOST_STALE = 4096  # tensors that were known and may be gone
NOBODY = (None, 0)


class Helper:
    def __init__(self):
        self.modules = {}  # number -> weak reference, which tells the recorder of its end
        self.ended = []  # numbers of modules that are gone
        self.named = {}  # number -> (number of its root, its name)
        self.refused = {}  # numbers of models that failed when they were looked at
        self.cut = {}  # numbers of models of which a part was left out
        self.unfinished = {}  # numbers of models with parameters that have no shape yet
        self.tensors = {}  # key -> (weak reference to the tensor or None, number)
        self.places = {}  # number -> (address, size)
        self.optimizers = {}  # address -> (weak reference, number, steps)
        self.begun = {}  # numbers of optimizers of which a step is under way
        self.trainer = TrainerCounts()  # trainer.py
        self.groups = ProcessGroups()  # groups.py
        self.settings = OptimizerSettings()  # optimizers.py
        self.compiled = CompiledFiles()  # compiled.py
        self.parameters = {}  # number -> what was last said of it
        self.cuts = {}  # what was left out
        self.last = self.last_optimizer = 0
        self.hooked = self.calibrated = False
        self.epoch = 0
        self.searches = 4
        self.unfound = 0  # modules without a name that a search did not find either
        self.skipped = self.torch = None
        self.stale = MOST_STALE
        self.generation = record.generation()

    # What the recorder asks for.

    def look(self):
        if self.torch is None or self.torch.Tensor is None:
            self.torch = Torch()
            if self.torch.Tensor is None:
                return
        self.skip_compiler()
        self.torch.look_for_modes()
        self.renew()
        self.hook_optimizers()
        self.groups.look()
        if self.torch.call is not None:
            for calls in record.calls(self.torch.call):
                self.look_at(calls)
        self.search()
        self.compiled.look(self)

    def renew(self):
        """A recording that is not the one before (a forked child, recording switched on again) knows nothing yet."""
        if record.generation() != self.generation:
            self.generation = record.generation()
            self.named.clear()
            self.places.clear()
            self.parameters.clear()
            self.groups.renew()
            self.settings.renew()
            self.compiled.renew()
        while self.ended:
            number = self.ended.pop()
            for known in (self.modules, self.named, self.refused, self.cut, self.unfinished):
                known.pop(number, None)
        if self.tensors.__len__() > self.stale:
            self.forget_ended()

    def forget_ended(self):
        for key, (reference, number) in list(self.tensors.items()):
            if reference is not None and reference() is None:
                for known, name in ((self.tensors, key), (self.places, number), (self.parameters, number)):
                    known.pop(name, None)
        self.stale = 2 * self.tensors.__len__() + MOST_STALE

    def skip_compiler(self):
        """torch.compile is not to look at our functions, but for the hooks, which it may compile into a step."""
        frames = module_fields("torch._C._dynamo.eval_frame")
        skip = dict.get(frames, "skip_code")
        if skip is not None and self.skipped is not skip:
            self.skipped = skip
            for code in codes_within(__code__):
                if code.co_name not in ("before", "after"):
                    skip(code)

    def left_out(self, why):
        """Says it once."""
        if why and why not in self.cuts:
            self.cuts[why] = True
            record.failed(("left out: " + why).encode("utf-8", "replace"), False)

    # Modules.

    def look_at(self, calls):
        outermost = None
        for call in calls:
            module = call.f_locals.get("self")
            if not is_a(module, self.torch.Module):
                continue
            if outermost is None:
                outermost = module
                self.inputs(call)
            if record.number(address(module)) in self.named:
                continue
            self.walk(outermost)  # it may have got new children
            if record.number(address(module)) not in self.named:
                self.walk(module)

    def search(self):
        """Modules whose call had ended before we came: of threads, while the main one waits. Looks at every object of the program, so not often."""
        if self.searches == 0 or record.unnamed() <= self.unfound:
            return
        self.searches -= 1
        modules = record.instances(self.torch.Module)
        if modules is None:
            self.searches = 0
            self.left_out("modules of threads, among too many objects")
            return
        inner = {}
        for module in modules:
            for _, child in pairs(field(module, "_modules")):
                inner[address(child)] = True
        for module in modules:
            if address(module) not in inner:
                self.walk(module)
        self.unfound = record.unnamed()

    def walk(self, root):
        number = record.number(address(root))
        if number == 0 or number in self.refused or number in self.cut:
            return
        self.refused[number] = True  # until all of it was told
        self.unfinished.pop(number, None)
        parallel = class_name(type(root)) in PARALLEL
        self.groups.used(root, type(root))
        found = Walk(self.torch, root)
        self.left_out(found.cut)
        for module, names in found.modules.values():
            self.module(module, number, [clean(name, parallel) for name in names])
        for role, tensors in ((PARAMETER, found.parameters), (BUFFER, found.buffers)):
            for tensor, names in tensors.values():
                if not self.tensor(tensor, role, [clean(name, parallel) for name in names], root=number):
                    self.unfinished[number] = True
        if found.cut:
            self.cut[number] = True
        self.refused.pop(number, None)

    def module(self, module, root, names):
        number = record.number(address(module))
        if number == 0:
            return
        if number not in self.modules:
            reference = record.reference(module, number, self.ended)
            if reference is None:
                return
            self.modules[number] = reference
        self.named[number] = (root, names[0])
        kind = type(module)
        reported = [(1, number), (2, text(class_name(kind))), (3, module_name(kind)), (4, root), (5, names[0])]
        record.define(NN_MODULE, message(reported + [(6, name) for name in names[1:MOST_NAMES]]))
        record.named(number)

    # Tensors.

    def number_of(self, tensor, key):
        """Of what `key` names, whichever tensor that is now; without a key of this very tensor."""
        place = key or address(tensor)
        reference, number = self.tensors.get(place, NOBODY)
        if number == 0 or (reference is not None and reference() is not tensor):
            self.last += 1
            number = self.last
            self.tensors[place] = (None if key else record.reference(tensor, number, None), number)
        return number

    def tensor(self, tensor, role, names, root=0, of=0, optimizer=0, group=0, key=None):
        """Says what a tensor is, once, and where its data lies, whenever that changed. Returns its number; 0 for one that is not looked at."""
        data = self.torch.data_of(tensor)
        if data is None:
            if not is_of_torch(type(tensor)):
                self.left_out("tensors of a class that decides their size and place itself")
            return 0
        requires_grad, shape, *stored = self.torch.read_data(tensor, data) or (None, None)
        if shape is None or stored.__len__() != 5 or not is_plain_shape(shape):
            return 0
        number = self.number_of(tensor, key)
        reported = (role, names[0], root, of, optimizer, group, requires_grad, shape)
        before = self.parameters.get(number)
        if before is None or before != reported and (root or optimizer):
            self.parameters[number] = reported
            dtype, device = self.torch.read(self.torch.of_kind, tensor) or (None, None)
            values = [(1, number), (2, role), (3, names[0]), (4, of), (5, root)] + [(6, size) for size in shape]
            values += [(7, str(dtype).replace("torch.", "")), (8, int(role == PARAMETER and requires_grad)), (9, optimizer), (10, group)]
            values += [(11, str(device)), (12, stored[1])] + [(13, name) for name in names[1:MOST_NAMES]]
            if role == PARAMETER or role == BUFFER:
                (implementation,) = self.torch.read(self.torch.of_layout, tensor) or (0,)
                values.append((14, implementation))
            record.define(TENSOR_DEFINITION, message(values))
        if role == GRADIENT:  # another one may lie where the one before lay, and nothing tells
            self.places.pop(number, None)
        self.place(number, data, *stored)
        return number

    def place(self, number, tensor, is_cuda, elements_of_it, element_bytes, offset, start):
        at = size = 0
        if is_cuda and start and elements_of_it:
            size = elements_of_it * element_bytes
            at = start + (offset * element_bytes if self.torch.has_storage_address else 0)
            if not self.calibrated:
                self.calibrated = True
                (impl,) = self.torch.read(self.torch.of_layout, tensor)
                record.layout(impl, at - offset * element_bytes)
        if self.places.get(number, (0, 0)) != (at, size):
            self.places[number] = (at, size)
            record.event(TENSOR, number, at, size)

    def inputs(self, call):
        """What the outermost module was called with, but for what another module computed."""
        local = call.f_locals
        values = elements(local.get("args")) or []
        given = values + [value for _, value in pairs(local.get("kwargs"))]
        at = 0
        for value in given:
            if is_a(value, self.torch.Tensor) and not self.is_parameter(value) and self.torch.read(self.torch.of_leaf, value) == (True,):
                self.tensor(value, INPUT, [""], key=("input", at))
            at += 1

    def is_parameter(self, tensor):
        return is_a(tensor, self.torch.Parameter) or self.torch.attribute(tensor, "_is_param") is True

    # Optimizers.

    def hook_optimizers(self):
        optimizer = module_fields("torch.optim.optimizer")
        before_steps, after_steps = dict.get(optimizer, "register_optimizer_step_pre_hook"), dict.get(optimizer, "register_optimizer_step_post_hook")
        if self.hooked or before_steps is None or after_steps is None:
            return
        self.hooked = True
        before, after = hooks_of(self, dict.get(module_fields("torch.compiler"), "is_compiling") or not_compiling)
        before_steps(before)
        after_steps(after)

    def optimizer(self, optimizer):
        place = address(optimizer)
        reference, number, steps = self.optimizers.get(place, (None, 0, 0))
        if reference is None or reference() is not optimizer:
            self.last_optimizer += 1
            number, steps = self.last_optimizer, 0
            self.optimizers[place] = (record.reference(optimizer, number, None), number, steps)
            record.define(OPTIMIZER, message([(1, number), (2, text(class_name(type(optimizer))))]))
        return number, steps

    def begin_step(self, optimizer):
        self.torch.look_for_modes()
        self.renew()
        self.search()
        self.finish()
        self.groups.look()
        self.compiled.look(self)
        number, steps = self.optimizer(optimizer)
        self.begun[number] = True
        step, self.epoch = self.trainer.now()
        record.event(OPTIMIZER_STEP, number | step << 32, 0, 0)
        if is_sampled(steps):
            self.settings.tell(optimizer, number, steps)
            self.each_parameter(optimizer, number, self.gradients)

    def end_step(self, optimizer, has_closure):
        self.torch.look_for_modes()
        number, steps = self.optimizer(optimizer)
        if number not in self.begun:  # we came in the middle of it: the forward pass ran in its closure
            self.begin_step(optimizer)
        self.begun.pop(number, None)
        if is_sampled(steps):
            if has_closure:  # which made the gradients
                self.each_parameter(optimizer, number, self.gradients)
            self.all_states(optimizer, number)
        place = address(optimizer)
        self.optimizers[place] = (self.optimizers[place][0], number, steps + 1)
        record.event(OPTIMIZER_STEP, number | self.epoch << 32, 0, 1)

    def end_of_program(self):
        """A step that failed leaves the states that it had made until then."""
        self.compiled.look(self)
        for reference, number, _ in list(self.optimizers.values()):
            optimizer = reference and reference()
            if optimizer is not None and number in self.begun:
                self.torch.look_for_modes()
                self.each_parameter(optimizer, number, self.gradients)
                self.all_states(optimizer, number)

    def all_states(self, optimizer, number):
        states = {address(parameter): state for parameter, state in pairs(field(optimizer, "state"))}
        self.each_parameter(optimizer, number, lambda parameter, of: self.states(states.get(address(parameter)), of))

    def finish(self):
        """Models whose parameters had no shape when they were first looked at."""
        for number in list(self.unfinished):
            reference = self.modules.get(number)
            root = reference and reference()
            self.unfinished.pop(number)
            if root is not None:
                self.walk(root)
                self.unfinished.pop(number, None)  # once

    def each_parameter(self, optimizer, number, then):
        index, looked, deadline = 0, 0, record.clock() + MOST_NS
        for group in elements(field(optimizer, "param_groups")):
            index += 1
            for parameter in elements(dict.get(group, "params")) if is_a(group, dict) else ():
                if not is_a(parameter, self.torch.Tensor):
                    continue
                looked += 1
                if looked & 63 == 0 and record.clock() > deadline:
                    self.left_out("an optimizer took too long to look at")
                    return
                _, known = self.tensors.get(address(parameter), NOBODY)
                reported = self.parameters.get(known, (0, "", 0))
                of = self.tensor(parameter, PARAMETER, [reported[1]], root=reported[2], optimizer=number, group=index)
                if of:
                    then(parameter, of)

    def gradients(self, parameter, of):
        if self.torch.read(self.torch.of_leaf, parameter) == (True,):  # of others PyTorch warns
            for value in self.torch.read(self.torch.of_gradient, parameter):
                self.gradient(value, "", of, 0)
        for name in ("grad_sample", "summed_grad"):  # those of samples, and their clipped sum, are Opacus'
            value, at = self.torch.attribute(parameter, name), 0
            for each in () if value is None else elements(value) or [value]:  # a list: of several backward passes
                self.gradient(each, name, of, at)
                at += 1

    def gradient(self, value, name, of, at):
        if is_a(value, self.torch.Tensor):
            self.tensor(value, GRADIENT, [name], of=of, key=("gradient", of, name or "grad", at))

    def states(self, state, of):
        for name, value in pairs(state):
            if is_a(value, self.torch.Tensor):
                name = text(name)
                self.tensor(value, STATE, [name], of=of, key=("state", of, name))


def is_plain_shape(shape):
    for size in tuple.__iter__(shape):
        if type(size) is not int:  # a symbol of torch.compile's
            return False
    return True


def is_of_torch(kind):
    return module_name(kind).partition(".")[0] == "torch"


def clean(name, parallel):
    parts = [part for part in name.split(".") if part not in WRAPPERS]
    if parallel and parts and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


def is_sampled(steps):
    return steps < 3 or steps & (steps - 1) == 0


def not_compiling():
    return False


def hooks_of(helper, torch_is_compiling):
    """What PyTorch calls before and after a step. While torch.compile traces them they are nothing: it knows what is_compiling answers, and there is
    no global name in front of it, which it would look for in a module of ours."""

    def before(optimizer, args, kwargs, is_compiling=torch_is_compiling):
        if not is_compiling():
            record.quietly(guarded, (helper.begin_step, optimizer))

    def after(optimizer, args, kwargs, is_compiling=torch_is_compiling):
        if not is_compiling():
            record.quietly(guarded, (helper.end_step, optimizer, args.__len__() > 1 or kwargs.__len__() > 0))

    return before, after
