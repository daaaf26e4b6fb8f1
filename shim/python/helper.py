# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of the recorder that runs in the program's own Python: it says what the objects are that frames and addresses name.

Runs between two bytecodes of the main thread, when a call of an nn.Module stands on a stack that the recorder cannot name (docs/attribution.md).
It imports nothing, changes nothing of the program but for two of PyTorch's own global hooks around Optimizer.step, and what fails in it is the
program's business nowhere. `record` is the recorder: see natives.cc.

An exception that a signal handler of the program raises while we run is the program's and goes through.
"""

NN_MODULE, TENSOR_DEFINITION, OPTIMIZER = 12, 13, 14  # fields of trace.proto's Definitions
PARAMETER, BUFFER, GRADIENT, STATE, INPUT = 1, 2, 3, 4, 5  # TensorRole
TENSOR, OPTIMIZER_STEP = 44, 46  # EventKind
# Parts of names that wrappers add and nobody wrote.
WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
PARALLEL = {"DistributedDataParallel", "DataParallel"}
MOST_FAILURES = 3  # then it is switched off


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(fields):
    """A protobuf message of (number, value) pairs: int or str; nothing for 0, "" and None."""
    out = b""
    for number, value in fields:
        if isinstance(value, str) and value:
            data = value.encode("utf-8", "replace")[:1000]
            out += varint(number << 3 | 2) + varint(len(data)) + data
        elif value and not isinstance(value, str):
            out += varint(number << 3) + varint(value)
    return out


class Helper:
    def __init__(self, record, sys, weakref):
        self.record, self.sys, self.weakref = record, sys, weakref
        self.modules = {}  # number -> weak reference that tells the recorder of its end
        self.named = set()  # numbers
        self.refused = set()  # numbers of those whose own methods failed when they were asked
        self.tensors = {}  # key -> (weak reference to the tensor or None, number)
        self.places = {}  # number -> (address, size)
        self.optimizers = {}  # id -> (weak reference, number, steps)
        self.begun = set()  # numbers of optimizers of which a step is under way
        self.trainer = TrainerCounts(sys, weakref)  # trainer.py
        self.parameters = {}  # number -> what was last said of it
        self.last = self.last_optimizer = 0
        self.hooked = self.calibrated = False
        self.epoch = 0
        self.searches = 4
        self.unfound = 0  # modules without a name that a search did not find either
        self.skipped = None
        self.generation = record.generation()

    # What the recorder asks for.

    def look(self):
        torch = self.sys.modules.get("torch")
        if torch is None or not hasattr(torch, "Tensor"):
            return
        self.torch = torch
        self.skip_compiler()
        self.renew()
        self.hook_optimizers()
        for calls in self.calls_on_stacks():
            self.look_at(calls)
        self.search()

    def renew(self):
        """A recording that is not the one before (a forked child, recording switched on again) knows nothing yet."""
        if self.record.generation() != self.generation:
            self.generation = self.record.generation()
            self.named.clear()
            self.places.clear()
            self.parameters.clear()

    def skip_compiler(self):
        """torch.compile is not to look at our functions, but for the hooks, which it may compile into a step."""
        frames = self.sys.modules.get("torch._C._dynamo.eval_frame")
        skip = getattr(frames, "skip_code", None)
        if skip is not None and self.skipped is not frames:
            self.skipped = frames
            for function in [*vars(Helper).values(), *vars(TrainerCounts).values(), varint, message, clean, is_sampled, code_of, is_of_program, failure_text, guarded, look, of_hugging_face, of_lightning]:
                if hasattr(function, "__code__"):
                    skip(function.__code__)

    # Modules.

    def calls_on_stacks(self):
        """For each thread the frames of modules' calls, outermost first."""
        module = self.sys.modules.get("torch.nn.modules.module")
        code = getattr(getattr(getattr(module, "Module", None), "_wrapped_call_impl", None), "__code__", None)
        if code is None:
            return
        for frame in self.sys._current_frames().values():
            calls = []
            while frame is not None:
                if frame.f_code is code:
                    calls.append(frame)
                frame = frame.f_back
            if calls:
                yield calls[::-1]

    def look_at(self, calls):
        outermost = None
        for call in calls:
            module = call.f_locals.get("self")
            if module is None:
                continue
            if outermost is None:
                outermost = module
                self.inputs(call)
            if self.record.number(id(module)) in self.named:
                continue
            self.walk(outermost)  # it may have got new children
            if self.record.number(id(module)) not in self.named:
                self.walk(module)

    def search(self):
        """Modules whose call had ended before we came: of threads, while the main one waits. Looks at every object of the program, so not often."""
        gc = self.sys.modules.get("gc")
        if self.searches == 0 or gc is None or self.record.unnamed() <= self.unfound:
            return
        self.searches -= 1
        wanted = self.torch.nn.Module
        modules = [found for found in gc.get_objects() if wanted in type(found).__mro__]
        inner = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
        for module in modules:
            if id(module) not in inner:
                self.walk(module)
        self.unfound = self.record.unnamed()

    def walk(self, root):
        number = self.record.number(id(root))
        if number == 0 or number in self.refused:
            return
        self.refused.add(number)  # until all of it was told
        parallel = type(root).__name__ in PARALLEL
        names = {}
        for name, module in root.named_modules(remove_duplicate=False):
            names.setdefault(id(module), (module, []))[1].append(clean(name, parallel))
        for module, found in names.values():
            self.module(module, number, found)
        for role, pairs in ((PARAMETER, root.named_parameters(remove_duplicate=False)), (BUFFER, root.named_buffers(remove_duplicate=False))):
            names = {}
            for name, tensor in pairs:
                names.setdefault(id(tensor), (tensor, []))[1].append(clean(name, parallel))
            for tensor, found in names.values():
                self.tensor(tensor, role, found, root=number)
        self.refused.discard(number)

    def module(self, module, root, names):
        number = self.record.number(id(module))
        if number == 0:
            return
        if number not in self.modules:
            self.modules[number] = self.weakref.ref(module, self.end_of(number, id(module)))
        self.named.add(number)
        kind = type(module)
        fields = [(1, number), (2, kind.__name__), (3, kind.__module__), (4, root), (5, names[0])]
        self.record.define(NN_MODULE, message(fields + [(6, name) for name in names[1:9]]))
        self.record.named(number)

    def end_of(self, number, address):
        record, modules, named = self.record, self.modules, self.named

        def end(_):
            record.forget(address)
            modules.pop(number, None)
            named.discard(number)

        return end

    # Tensors.

    def number_of(self, tensor, key):
        """Of what `key` names, whichever tensor that is now; without a key of this very tensor."""
        reference, number = self.tensors.get(key or id(tensor), (None, 0))
        if number == 0 or (reference is not None and reference() is not tensor):
            self.last += 1
            number = self.last
            self.tensors[key or id(tensor)] = (None if key else self.weakref.ref(tensor), number)
        return number

    def tensor(self, tensor, role, names, root=0, of=0, optimizer=0, group=0, key=None):
        """Says what a tensor is, once, and where its data lies, whenever that changed. Returns its number."""
        if type(tensor).__name__ == "FakeTensor":
            return 0
        number = self.number_of(tensor, key)
        local = getattr(tensor, "_local_tensor", tensor)
        said = (role, names[0], root, of, optimizer, group, tensor.requires_grad, tuple(tensor.shape))
        before = self.parameters.get(number)
        if before is None or before != said and (root or optimizer):
            self.parameters[number] = said
            fields = [(1, number), (2, role), (3, names[0]), (4, of), (5, root)] + [(6, int(size)) for size in tensor.shape]
            fields += [(7, str(tensor.dtype).replace("torch.", "")), (8, int(role == PARAMETER and tensor.requires_grad)), (9, optimizer), (10, group)]
            fields += [(11, str(tensor.device)), (12, local.numel())] + [(13, name) for name in names[1:9]]
            self.record.define(TENSOR_DEFINITION, message(fields))
        if role == GRADIENT:  # another one may lie where the one before lay, and nothing tells
            self.places.pop(number, None)
        self.place(number, local)
        return number

    def place(self, number, tensor):
        address = size = 0
        if tensor.is_cuda:
            address, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
            if address and not self.calibrated:
                self.calibrated = True
                self.record.layout(tensor._cdata, tensor.untyped_storage().data_ptr())
        if self.places.get(number, (0, 0)) != (address, size):
            self.places[number] = (address, size)
            self.record.event(TENSOR, number, address, size)

    def inputs(self, call):
        """What the outermost module was called with, but for what another module computed."""
        values = list(call.f_locals.get("args", ())) + list(call.f_locals.get("kwargs", {}).values())
        for i, value in enumerate(values):
            if isinstance(value, self.torch.Tensor) and value.is_leaf and not isinstance(value, self.torch.nn.Parameter):
                self.tensor(value, INPUT, [""], key=("input", i))

    # Optimizers.

    def hook_optimizers(self):
        module = self.sys.modules.get("torch.optim.optimizer")
        if self.hooked or not hasattr(module, "register_optimizer_step_post_hook"):
            return
        self.hooked = True
        before, after = hooks_of(self, getattr(self.sys.modules.get("torch.compiler"), "is_compiling", bool))
        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    def optimizer(self, optimizer):
        reference, number, steps = self.optimizers.get(id(optimizer), (None, 0, 0))
        if reference is None or reference() is not optimizer:
            self.last_optimizer += 1
            number, steps = self.last_optimizer, 0
            self.optimizers[id(optimizer)] = (self.weakref.ref(optimizer), number, steps)
            self.record.define(OPTIMIZER, message([(1, number), (2, type(optimizer).__name__)]))
        return number, steps

    def begin_step(self, optimizer):
        self.renew()
        self.search()
        number, steps = self.optimizer(optimizer)
        self.begun.add(number)
        step, self.epoch = self.trainer.now()
        self.record.event(OPTIMIZER_STEP, number | step << 32, 0, 0)
        if is_sampled(steps):
            self.each_parameter(optimizer, number, self.gradients)

    def end_step(self, optimizer, has_closure):
        number, steps = self.optimizer(optimizer)
        if number not in self.begun:  # we came in the middle of it: the forward pass ran in its closure
            self.begin_step(optimizer)
        self.begun.discard(number)
        if is_sampled(steps):
            if has_closure:  # which made the gradients
                self.each_parameter(optimizer, number, self.gradients)
            self.each_parameter(optimizer, number, self.states)
        self.optimizers[id(optimizer)] = (self.optimizers[id(optimizer)][0], number, steps + 1)
        self.record.event(OPTIMIZER_STEP, number | self.epoch << 32, 0, 1)

    def each_parameter(self, optimizer, number, then):
        for index, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                _, known = self.tensors.get(id(parameter), (None, 0))
                said = self.parameters.get(known, (0, "", 0))
                of = self.tensor(parameter, PARAMETER, [said[1]], root=said[2], optimizer=number, group=index + 1)
                if of:
                    then(optimizer, parameter, of)

    def gradients(self, _, parameter, of):
        for name in ("grad", "grad_sample", "summed_grad"):  # those of samples, and their clipped sum, are Opacus'
            value = getattr(parameter, name, None)
            for i, each in enumerate(value if isinstance(value, list) else [value]):  # a list: of several backward passes
                if isinstance(each, self.torch.Tensor):
                    self.tensor(each, GRADIENT, ["" if name == "grad" else name], of=of, key=("gradient", of, name, i))

    def states(self, optimizer, parameter, of):
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, self.torch.Tensor):
                self.tensor(value, STATE, [str(name)], of=of, key=("state", of, name))


def clean(name, parallel):
    parts = [part for part in name.split(".") if part not in WRAPPERS]
    if parallel and parts and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


def is_sampled(steps):
    return steps < 3 or steps & (steps - 1) == 0


def hooks_of(helper, torch_is_compiling):
    """What PyTorch calls before and after a step. While torch.compile traces them they are nothing: it knows what is_compiling answers, and there is
    no global name in front of it, which it would look for in a module of ours."""

    def before(optimizer, args, kwargs, is_compiling=torch_is_compiling):
        if not is_compiling():
            guarded(helper.begin_step, optimizer)

    def after(optimizer, args, kwargs, is_compiling=torch_is_compiling):
        if not is_compiling():
            guarded(helper.end_step, optimizer, len(args) > 1 or bool(kwargs))

    return before, after


def code_of(handler):
    """Of whatever can be called: a function, a method, an object with __call__."""
    for callable_ in (handler, getattr(type(handler), "__call__", None)):
        code = getattr(getattr(callable_, "__func__", callable_), "__code__", None)
        if code is not None:
            return code
    return None


def is_of_program(error, sys):
    """Whether it only happened to be raised while we ran: by a signal handler of the program, or thrown into this thread. What methods of the
    program's objects raise that we called is our failure."""
    signal = sys.modules.get("_signal")
    handlers = [signal.getsignal(number) for number in range(1, signal.NSIG)] if signal else []
    codes = {code_of(handler) for handler in handlers} - {None}
    traceback, called = error.__traceback__, False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code in codes:
            return True
        called = called or (code.co_filename != __file__ and "/torch/" not in code.co_filename)
        traceback = traceback.tb_next
    # Thrown into the thread: an exception of a kind that nothing of what ran here knows.
    return not called and type(error).__module__.partition(".")[0] not in ("builtins", "torch")


def guarded(function, *arguments):
    global failures
    if failures >= MOST_FAILURES:
        return
    try:
        function(*arguments)
    except Exception as error:
        if is_of_program(error, record.sys):
            raise
        failures += 1
        record.failed(failure_text(error), failures == MOST_FAILURES)


def failure_text(error):
    """What and where: the program's own text of it may be anything, or fail too."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    where = traceback.tb_frame.f_code.co_name if traceback else "?"
    try:
        text = str(error)
    except Exception:
        text = "?"
    return f"{type(error).__name__} in {where}: {text}".encode("utf-8", "replace")


failures = 0


def look():
    global helper
    if helper is None:
        sys = record.sys
        weakref = sys.modules.get("weakref")
        if weakref is None:
            return
        helper = Helper(record, sys, weakref)
    guarded(helper.look)
    return 1 if "torch.optim.optimizer" in record.sys.modules else None


helper = None
