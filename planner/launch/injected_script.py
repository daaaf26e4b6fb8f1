# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of `gpumemshim plan` that runs in the planned program (GPUMEMSHIM_INJECTED_SCRIPT): it ends the program after its steps and says how they went.

    GPUMEMSHIM_PLAN_FOLDER    where PROCESS.json (what Run.end writes) and PROCESS.stack (Python stacks when time is nearly up) go
    GPUMEMSHIM_PLAN_STEPS     "stable": until the peak did not grow for two steps; "stable:N": the same, after N steps at least; "all": never; or a number
    GPUMEMSHIM_PLAN_LINGER    "1", or "fits" for as long as the peak is not more than the device has: go on after that, to LINGER_STEPS steps or LINGER_REQUESTS requests for memory, since a program that comes to its end leaves nothing open; where steps differ in what they ask for, DIFFERING times as far; where the loops around a step say that they end within MOST_REQUESTS (loop_bounds.py), to their end
    GPUMEMSHIM_PLAN_DEADLINE  when the program will be killed, in seconds of CLOCK_MONOTONIC
    GPUMEMSHIM_PLAN_WHAT_IF   "foreach,checkpointing:6": what changes.py, which is in the same folder, is to change for a comparison
    GPUMEMSHIM_PLAN_MODULES   "1": PROCESS.modules is to say what was imported by the end (fork_server.py)
    GPUMEMSHIM_PLAN_VALUES    JSON: what values.py, which lies beside this file, is to do; not set: values are not computed
    GPUMEMSHIM_PLAN_PINS      JSON: [[part of a source line, value], ...]: what reading a tensor on such a line gives

The program's own objects are left as they are, but for pins and what-ifs, which change what the program does: that is their purpose.
"""

import atexit
import ctypes
import dis
import faulthandler
import fcntl
import json
import linecache
import os
import sys
import time

LEAST_STEPS, STABLE_STEPS = 3, 2
LINGER_STEPS, LINGER_REQUESTS = 60, 100_000  # counted, not timed: a busy machine must not change an answer
DIFFERING = 10  # one of the next steps may ask for more than all before
MOST_REQUESTS = 1_000_000  # of a program whose loops say that it ends with no more
FIRST_STEPS = 2  # that make what later ones have: gradients, an optimizer's state
BEFORE_DEADLINE = 2.0  # seconds
PATIENCE_STEPS = 20  # after which a rank that never made a step counts as one that makes none
GOODBYE_SECONDS = 20.0


class Ranks:
    """The ranks of the program agree after which step all of them stop: one that waits for another must not wait for ever.

    They know of each other by a file in the plan's folder, which one at a time reads and writes:
    {"at": {rank: its step}, "enough": [ranks that could stop], "stop": the step, "done": [ranks that stopped or ended]}
    """

    def __init__(self, environment):
        self.rank, self.world = int(environment.get("RANK", 0)), int(environment.get("WORLD_SIZE", 1))
        self.is_one_of_many = self.world > 1 and "RANK" in environment and "GPUMEMSHIM_PLAN_FAKE_RANKS" not in environment
        self.path = os.path.join(environment["GPUMEMSHIM_PLAN_FOLDER"], "ranks")

    def change(self, function):
        """function(what the file says) may change that; what it returns."""
        with open(self.path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            state = json.loads(file.read() or '{"at": {}, "enough": [], "stop": null, "done": []}')
            result = function(state)
            file.truncate(0)
            file.write(json.dumps(state))
        return result

    def may_stop(self, step, enough):
        """Whether this rank, which made `step` and for its own part saw `enough`, stops here."""
        if not self.is_one_of_many:
            return enough

        def decide(state):
            state["at"][str(self.rank)] = step
            state["enough"] = [rank for rank in state["enough"] if rank != self.rank] + [self.rank] * enough
            others = [int(rank) for rank in state["at"] if int(rank) not in (self.rank, *state["done"])]
            all_known = len(state["at"]) >= self.world or step >= PATIENCE_STEPS
            if state["stop"] is None and enough and all_known and set(others) <= set(state["enough"]):
                # The others are past their step already, and see this after the next one.
                state["stop"] = max([step] + [state["at"][str(rank)] + 1 for rank in others])
            return state["stop"] is not None and step >= state["stop"]

        return self.change(decide)

    def leave(self):
        if self.is_one_of_many:
            self.change(lambda state: state["done"].append(self.rank))

    def wait_for_the_others(self):
        """One of them may hold what the rest needs up to the last step, such as c10d's store."""
        until = time.monotonic() + GOODBYE_SECONDS
        while self.is_one_of_many and time.monotonic() < until:
            if self.change(lambda state: {int(rank) for rank in state["at"]} <= set(state["done"])):
                return
            time.sleep(0.02)


class Run:
    def __init__(self, record, environment):
        self.record, self.torch = record, sys.modules["torch"]
        self.folder, self.wanted = environment["GPUMEMSHIM_PLAN_FOLDER"], environment.get("GPUMEMSHIM_PLAN_STEPS", "stable")
        self.pid, self.counts, self.peaks, self.reported, self.notes, self.changes = os.getpid(), {}, [], False, {}, []
        self.highest, self.last_growth = (0, 0), 0
        self.asked, self.kinds_of_steps = (0, 0), set()
        self.last_step = None  # after which the loops around a step end; 0 = not known, or too late
        self.times = {"cuda_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}
        mode, _, least = self.wanted.partition(":")
        self.wanted, self.least = mode, max(int(least or 0), LEAST_STEPS)
        self.lingers = environment.get("GPUMEMSHIM_PLAN_LINGER", "")
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.half_time = (now + float(environment.get("GPUMEMSHIM_PLAN_DEADLINE", "inf"))) / 2
        self.ranks = Ranks(environment)

    # Steps.

    def stepped(self, optimizer):
        if os.getpid() == self.pid:
            self.count_step(id(optimizer))

    def left_out(self):
        """GradScaler leaves a step out: what came with it is over all the same."""
        if os.getpid() == self.pid:
            self.count_step(next(iter(self.counts), 0))

    def count_step(self, optimizer):
        forget_collectives()
        number = self.counts.get(optimizer, 0) + 1
        self.counts[optimizer] = number
        if optimizer != next(iter(self.counts)):  # several optimizers: a step ends when the first one's does
            return
        self.look_at_settings()
        peak = self.peak()
        self.times.setdefault("first_step_ns", time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.peaks.append(peak)
        if any(now > before for now, before in zip(peak, self.highest)):
            self.last_growth = number
        self.highest = tuple(map(max, peak, self.highest))
        asked, self.asked = self.asked, self.requests()
        if number > FIRST_STEPS:
            self.kinds_of_steps.add(tuple(now - before for now, before in zip(self.asked, asked)))
        if self.wanted != "all" and self.ranks.may_stop(number, self.is_enough(number)):
            self.stop("stable" if self.wanted == "stable" else "steps")

    def peak(self):
        """Most bytes allocated and reserved so far, of the fullest device. The program may reset these counters, so the largest counts."""
        peaks = [(0, 0)]
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats(device)
            peaks.append((stats.get("allocated_bytes.all.peak", 0), stats.get("reserved_bytes.all.peak", 0)))
        return tuple(max(values) for values in zip(*peaks))

    def look_at_settings(self):
        """cudnn.benchmark tries algorithms with whatever memory is free, so it is said if it ever was on."""
        if self.torch.backends.cudnn.benchmark:
            self.notes["benchmark"] = True

    def requests(self):
        """How many requests for memory there were so far, and their bytes: two steps that differ in neither ask for the same."""
        stats = [self.torch.cuda.memory_stats(device) for device in range(self.torch.cuda.device_count())]
        return tuple(sum(each.get(f"{name}.all.allocated", 0) for each in stats) for name in ("allocation", "requested_bytes"))

    def is_enough(self, number):
        if self.wanted == "all":
            return False
        if self.wanted == "stable":
            return number >= self.least and number - self.last_growth >= STABLE_STEPS and not self.goes_on(number)
        others = [count for count in self.counts.values()]
        return number >= int(self.wanted) and (min(others) >= int(self.wanted) or number > int(self.wanted))

    def goes_on(self, number):
        """Past the stable peak. Only where its time would be up before that it stops early: an answer is better than none."""
        far = DIFFERING if len(self.kinds_of_steps) > 1 else 1
        if not self.lingers or time.clock_gettime(time.CLOCK_MONOTONIC) > self.half_time:
            return False
        if self.lingers == "fits" and self.highest[1] > self.torch.cuda.get_device_properties(0).total_memory:
            return False
        return (number < far * LINGER_STEPS and self.asked[0] < far * LINGER_REQUESTS) or self.ends_soon(number)

    def ends_soon(self, number):
        if self.last_step is None:
            turns = loaded("loop_bounds")["most_turns"](sys._getframe())
            self.last_step = turns if turns is not None and turns * self.asked[0] <= number * MOST_REQUESTS else 0
        return number <= self.last_step

    # Ends.

    def stop(self, reason):
        self.say(reason)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        self.record.end()
        self.ranks.wait_for_the_others()
        os._exit(0)

    def say(self, reason):
        if self.reported or os.getpid() != self.pid:
            return
        self.reported = True
        self.look_at_settings()
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            driver.simcuda_event_queries.restype = ctypes.c_uint64
            self.notes["event_queries"] = driver.simcuda_event_queries()
            self.notes.update(asked_workspaces(driver))
        except (OSError, AttributeError):  # another driver
            pass
        reported = {"pid": self.pid, "reason": reason, "steps": len(self.peaks), "last_growth": self.last_growth, "peaks": self.peaks, "highest": self.highest,
                "steps_differ": len(self.kinds_of_steps) > 1, **failure(),
                "torch": self.torch.__version__, "rank": int(os.environ.get("RANK", 0)),
                "ended_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC), **self.times, "changes": [change.report() for change in self.changes], **self.notes}
        self.write("json", reported)
        if os.environ.get("GPUMEMSHIM_PLAN_MODULES") == "1":
            self.write("modules", [[name, path] for name, module in list(sys.modules.items()) if isinstance(path := getattr(module, "__file__", None), str)])

    def pinned(self, text):
        pinned = self.notes.setdefault("pinned", {})
        pinned[text] = pinned.get(text, 0) + 1

    def write(self, ending, value):
        place = os.path.join(self.folder, f"{self.pid}.{ending}")
        with open(place + ".part", "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(place + ".part", place)
        self.ranks.leave()

    def watch(self, deadline):
        left = deadline - time.clock_gettime(time.CLOCK_MONOTONIC) - BEFORE_DEADLINE
        self.stacks = open(os.path.join(self.folder, f"{self.pid}.stack"), "w", encoding="utf-8")
        faulthandler.dump_traceback_later(max(left, 0.5), exit=False, file=self.stacks)

    # What can be known at once.

    def check_capability(self):
        """PyTorch's own rule: code for the same major number and a minor one that is not larger, or code that the driver can still translate."""
        major, minor = divmod(int(os.environ.get("SIMCUDA_CC", "90")), 10)
        built = (self.torch._C._cuda_getArchFlags() or "").split()
        numbers = [(name.startswith("sm_"), int("".join(filter(str.isdigit, name)))) for name in built]
        now = major * 10 + minor
        if not numbers or any(number // 10 == major and number <= now if is_code else number <= now for is_code, number in numbers):
            return
        self.notes.update(capability=f"{major}.{minor}", built_for=built)
        self.stop("capability")


def failure():
    """Of a program that ends by an exception nobody caught: where, and whether an operator refused what it was given, and no line of Python did."""
    error, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
    if error is None or trace is None:
        return {}
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    names = {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}
    refused = names.get(trace.tb_lasti, "") not in ("RAISE_VARARGS", "RERAISE")
    # The program's own table or arithmetic: another number may do.
    looked_up = isinstance(error, (KeyError, ArithmeticError)) or (isinstance(error, IndexError) and str(error).endswith("index out of range"))
    return {"failed_at": f"{code.co_filename}:{trace.tb_lineno}", "failed_by": f"{type(error).__name__}: {error}"[:200], "operator_refused": refused and not looked_up, "table_refused": refused and looked_up}


def asked_workspaces(driver):
    """What libraries asked for, by library: how many operations are known how, and the largest sizes; and the size of the context."""
    ask = driver.simcuda_workspaces
    ask.restype, ask.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_uint64)
    size = ask(None, 0) + 1
    text = ctypes.create_string_buffer(size)
    ask(text, size)
    libraries, context = {}, None
    for line in text.value.decode("utf-8", "replace").splitlines():
        library, operation, _, known, given, bound, _ = line.split("\t")
        if library == "CUDA":
            context = {"known": known, "bytes": int(given)} if operation == "context" else context
            continue
        one = libraries.setdefault(library, {"set": 0, "measured": 0, "similar": 0, "law": 0, "bound": 0, "nothing": 0, "without_bound": 0, "largest": 0, "largest_bound": 0})
        one[known] += 1
        one["largest"] = max(one["largest"], int(given))
        if known == "nothing" and bound == "-":
            one["without_bound"] += 1
        elif known in ("nothing", "law"):
            one["largest_bound"] = max(one["largest_bound"], int(bound))
    return {"workspaces": libraries, "context": context}


def forget_collectives():
    """A thread of PyTorch looks every 100 ms which collectives are done, and holds their tensors until then. A step takes no time here, on a GPU it mostly takes
    longer than that: what is held must not depend on it."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or os.environ.get("SIMCUDA_EVENTS") == "late":  # late events are ready when the program waits for them, and not before
        return
    for group in list(getattr(c10d._world, "pg_map", ())):
        try:
            group._wait_for_pending_works()
        except (AttributeError, RuntimeError):  # a backend that has none to wait for
            pass


def hook_steps(run):
    optimizer = sys.modules.get("torch.optim.optimizer")
    is_compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", bool)

    def after(optimizer, args, kwargs):
        if not is_compiling():
            run.stepped(optimizer)

    for function in (after, Run.stepped):
        skip = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "skip_code", None)
        if skip is not None:
            skip(function.__code__)
    optimizer.register_optimizer_step_post_hook(after)


# Pins.


def pin(run, pins):
    """What a tensor's value is where a source line has a text; other lines read what the simulation has: mostly zeros."""
    tensor = sys.modules["torch"].Tensor

    def pinned(frame):
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        for text, value in pins:
            if text == place or (text in line and ":" not in text):
                run.pinned(text)
                return True, value
        return False, None

    for name, kind in (("item", None), ("tolist", None), ("__bool__", bool), ("__int__", int), ("__float__", float), ("__index__", int)):
        def read(self, *arguments, real=getattr(tensor, name), kind=kind):
            found, value = pinned(sys._getframe(1)) if self.is_cuda else (False, None)
            return real(self, *arguments) if not found else value if kind is None else kind(value)

        setattr(tensor, name, read)


def loaded(name):
    """What a file beside this one defines."""
    path = os.path.join(os.path.dirname(os.environ["GPUMEMSHIM_INJECTED_SCRIPT"]), f"{name}.py")
    scope = {"__name__": f"gpumem_{name}", "__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), scope)
    return scope


def compute_values(run, options):
    """An older PyTorch may lack what that needs: then it is said, and nothing is computed."""
    try:
        loaded("values")["begin"](run, options)
    except Exception as error:
        run.notes["values_failed"] = f"{type(error).__name__}: {error}"[:200]


def begin(record):
    environment = os.environ
    run = Run(record, environment)
    atexit.register(run.say, "ended")
    run.check_capability()
    if "GPUMEMSHIM_PLAN_DEADLINE" in environment:
        run.watch(float(environment["GPUMEMSHIM_PLAN_DEADLINE"]))
    hook_steps(run)
    if environment.get("GPUMEMSHIM_PLAN_WHAT_IF"):
        loaded("changes")["begin"](run, environment["GPUMEMSHIM_PLAN_WHAT_IF"])
    pins = json.loads(environment.get("GPUMEMSHIM_PLAN_PINS", "[]"))
    if pins:
        pin(run, pins)
    if environment.get("GPUMEMSHIM_PLAN_VALUES"):
        compute_values(run, json.loads(environment["GPUMEMSHIM_PLAN_VALUES"]))


begin(record)  # noqa: F821: the recorder gives it
