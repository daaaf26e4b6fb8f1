# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What is a failure of the helper, and what is the program's: a part of the helper, behind the others.

No code of the program is called in here. So what is raised in a frame that is neither ours nor PyTorch's is the program's: a signal handler raised it
while we ran. So is what no code here raises (KeyboardInterrupt, SystemExit, a class of the program): a handler in C, or another thread, threw it in. The
program's goes through; ours is counted, told, and after the third nothing runs any more.
"""

MOST_FAILURES = 3
# What may go wrong in here, or in PyTorch when it is asked.
OWN_ERRORS = (
    "TypeError", "ValueError", "KeyError", "IndexError", "AttributeError", "NameError", "UnboundLocalError", "RuntimeError", "NotImplementedError",
    "MemoryError", "OverflowError", "AssertionError", "SystemError", "RecursionError",
)
base_exception = class_fields(class_bases(Exception)[1])
traceback_of, arguments_of = base_exception["__traceback__"].__get__, base_exception["args"].__get__


def code_of(handler):
    """Of a signal handler, where it is a function, a method or an object with __call__ in Python."""
    for called in (handler, defined(type(handler), "__call__")):
        within = defined(type(called), "__func__")  # of a bound method, a staticmethod
        code = record.code(within.__get__(called) if is_getter(within) else called)
        if code is not None:
            return code
    return None


def handler_codes():
    signal = module_fields("_signal")
    get, number, found = dict.get(signal, "getsignal"), 1, []
    while get is not None and number < signal["NSIG"]:
        found.append(code_of(get(number)))
        number += 1
    return [code for code in found if code is not None]


def is_own(error):
    handlers, place = handler_codes(), traceback_of(error)
    while place is not None:
        code = place.tb_frame.f_code
        for each in handlers:
            if each is code:
                return False
        if code.co_filename != __file__ and "/torch/" not in code.co_filename:
            return False
        place = place.tb_next
    kind = type(error)
    return is_of_torch(kind) or module_name(kind) == "builtins" and class_name(kind) in OWN_ERRORS


def guarded(function, *arguments):
    global failures, deep
    if failures >= MOST_FAILURES:
        return
    is_over = False
    try:
        function(*arguments)
        is_over = True
    except Exception as error:
        if not is_own(error):
            raise
        if class_name(type(error)) == "RecursionError":  # the program is near its limit: another time
            deep += 1
            if deep == 1:
                record.failed(failure_text(error), False)
        else:
            is_over = True
            failures += 1
            record.failed(failure_text(error), failures == MOST_FAILURES)
    finally:
        if not is_over and helper is not None:
            helper.refused.clear()  # nothing was wrong with them


def failure_text(error):
    """What and where. Of the error's text what needs no code of its class."""
    place, where = traceback_of(error), "?"
    while place is not None:
        where = place.tb_frame.f_code.co_name
        place = place.tb_next
    reported = [text(each) for each in arguments_of(error)[:1]]
    return f"{text(class_name(type(error)))} in {where}: {''.join(reported) or '?'}".encode("utf-8", "replace")


MARK, PROGRAM_END = 30, 2  # EventKind, and the handle of that mark
TORCH_LIMIT = 48
MOST_DEVICES = 64
failures = deep = 0
waits_for_end = False


def wait_for_end():
    """For the end of the program's own code. Exit handlers run newest first: ours is among the last, after the program's."""
    global waits_for_end
    register = dict.get(module_fields("atexit"), "register")
    if not waits_for_end and register is not None:
        waits_for_end = True
        register(program_ended)


def record_limits():
    """What set_per_process_memory_fraction leaves to PyTorch's allocator. Asked of PyTorch alone, and only where it is set: no call of CUDA."""
    cuda, native = module_fields("torch.cuda"), module_fields("torch._C")
    fraction_of, is_ready = dict.get(native, "_cuda_getMemoryFraction"), dict.get(cuda, "is_initialized")
    properties_of = dict.get(cuda, "_get_device_properties")
    if fraction_of is None or is_ready is None or properties_of is None or not is_ready():
        return
    device, count = 0, native["_cuda_getDeviceCount"]()
    while device < count and device < MOST_DEVICES:
        fraction = fraction_of(device)
        if 0 < fraction < 1:
            record.event(TORCH_LIMIT, device, 0, int(fraction * properties_of(device).total_memory + 0.5))
        device += 1


limited = {}  # devices on which GPUMEMSHIM_LIMIT was looked at


def limit_torch():
    """GPUMEMSHIM_LIMIT, on the device in use: PyTorch's own switch, as torch.cuda.set_per_process_memory_fraction has it. What is less already stays."""
    limit = record.torch_limit()
    cuda, native = module_fields("torch.cuda"), module_fields("torch._C")
    set_fraction, device_of, is_ready = dict.get(native, "_cuda_setMemoryFraction"), dict.get(native, "_cuda_getDevice"), dict.get(cuda, "is_initialized")
    properties_of, fraction_of = dict.get(cuda, "_get_device_properties"), dict.get(native, "_cuda_getMemoryFraction")
    if not limit or set_fraction is None or device_of is None or properties_of is None or is_ready is None or not is_ready():
        return
    device = device_of()
    if device in limited:
        return
    limited[device] = True
    total = properties_of(device).total_memory
    if limit < total * (fraction_of(device) if fraction_of else 1):
        set_fraction(limit / total, device)
        record.event(TORCH_LIMIT, device, 0, limit)


END, OUT_OF_MEMORY, ASKED = 1, 2, 3  # trace.proto's OwnersCause


def tell_owners(cause):
    limit = record.owners_limit()
    if limit and helper is not None and helper.torch is not None and helper.torch.Tensor is not None:
        helper.torch.look_for_modes()
        is_on = dict.get(module_fields("gc"), "isenabled")
        collects = None if is_on is None else is_on()
        record.still(record.owners_source()["tell"], (helper.torch, cause, limit * 1_000_000, collects))


def owners(cause):
    """Who owns GPU memory now: owners.py, which is compiled when it is needed."""
    guarded(tell_owners, cause)


def program_ended():
    record.quietly(guarded, (record_limits,))
    if helper is not None:
        record.quietly(guarded, (helper.end_of_program,))
    if record.owners_limit() and record.grew():
        record.quietly(owners, (END,))
    record.quietly(record.event, (MARK, PROGRAM_END, 0, 0))


def look():
    global helper
    if helper is None:
        helper = Helper()
    guarded(wait_for_end)
    guarded(limit_torch)
    guarded(tell_existing)
    guarded(helper.look)
    return 1 if dict.__contains__(record.modules(), "torch.optim.optimizer") else None


helper = None
