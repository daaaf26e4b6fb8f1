# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the machine code of the hot path costs: for each function that a hook runs through, how many instructions, stores and locked
instructions it has, and what it calls. Counted in the disassembly, so that no noise of a machine is in it.

A function's cold part (gcc's name.cold) is not counted, and calls of functions in SLOW are counted but not followed.
"""

import collections
import dataclasses
import re

import elf_facts

# Where programs come in, and what the writer of an event runs through.
ROOTS = (
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
    "_ZN2at15sequence_number17get_and_incrementEv",
    "cudaMalloc",
    "cudaFree",
    "cudaMallocAsync",
    "cudaFreeAsync",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
)

# Called where something happens for the first time, or seldom: name as printed -> when.
SLOW = {
    "hooks::TorchFunction::Search": "the first call of a function of PyTorch",
    "calls::ResolveForCaller": "the first call from a call site",
    "calls::ResolveRealFunction": "the first call of a function",
    "calls::DriverFunction": "the first question to the driver",
    "hooks::FindOwnContext": "programs that make contexts of their own",
    "hooks::DeviceOfAddress": "allocations on a stream other than the default one",
    "hooks::capture::AskDriver": "while a stream is captured",
    "hooks::capture::MarkNode": "while a stream is captured",
    "hooks::Start": "the first event of a session",
    "session::AskHelper": "the first block of a session",
    "hooks::Flush": "the first event of a session, and out of memory",
    "ring::MakeRoom": "a chunk is full",
    "stack::FindInterpreter": "until Python is found",
    "stack::RenewThread": "the first event of a thread",
    "stack::LookAtModules": "a library was loaded",
    "stack::Unwind": "a native stack that the path cache does not know",
    "stack::SendStack": "a stack that the thread has not sent yet",
    "stack::SuccessorCache::FindElsewhere": "a stack that does not follow the last one",
}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\s+(.+)$")
TARGET = re.compile(r"<([^<>+]+)(\+0x[0-9a-f]+)?>$")
POINTER = "(a pointer)"
PREFIXES = {"lock", "rep", "repz", "repnz", "notrack", "bnd", "data16", "cs", "ds", "es", "fs", "gs"}
# These read a memory operand that stands where others write to it.
READERS = re.compile(r"cmp|test|u?comis|vu?comis|bt[lqw]?$|push|call|jmp|nop|prefetch|i?div|i?mul|fld|ldmxcsr|lea")


@dataclasses.dataclass
class Cost:
    instructions: int = 0
    stores: int = 0
    locked: int = 0
    calls: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, other):
        self.instructions += other.instructions
        self.stores += other.stores
        self.locked += other.locked
        self.calls += other.calls


def split(instruction):
    """`lock add %eax,0x8(%rdi) # 12a0 <x>` -> ({lock}, add, [%eax, 0x8(%rdi)])."""
    words = instruction.split("#")[0].split()
    prefixes = set()
    while words and words[0] in PREFIXES:
        prefixes.add(words.pop(0))
    mnemonic = words[0] if words else ""
    return prefixes, mnemonic, re.split(r",(?![^(]*\))", words[1]) if len(words) > 1 else []


def is_memory(operand):
    return "(" in operand or "%fs:" in operand or "%gs:" in operand


def is_store(mnemonic, operands):
    if mnemonic.startswith(("stos", "movs")) and any("%es:" in operand for operand in operands):
        return True
    return bool(operands) and is_memory(operands[-1]) and not READERS.match(mnemonic)


def is_locked(prefixes, mnemonic, operands):
    return "lock" in prefixes or mnemonic == "mfence" or (mnemonic.startswith("xchg") and any(map(is_memory, operands)))


def target_of(instruction, function):
    """Whom the instruction calls, or jumps to for good; None where it stays in the function or goes to a cold part."""
    _, mnemonic, operands = split(instruction)
    if not mnemonic.startswith(("call", "j")) or not operands:
        return None
    if operands[0].startswith("*"):
        # A switch jumps through a table as a tail call jumps through a pointer.
        return POINTER
    target = TARGET.search(instruction)
    if target is None or target.group(2) or target.group(1) == function or target.group(1).endswith(".cold"):
        return None
    return target.group(1)


def code(library):
    """Function -> its instructions. Of several that share a name (static ones), all."""
    found, current = {}, None
    for line in elf_facts.tool("objdump", "-d", "-w", "--no-show-raw-insn", library).splitlines():
        start = FUNCTION.match(line)
        if start:
            current = found.setdefault(start.group(1), [])
            continue
        instruction = INSTRUCTION.match(line)
        if current is not None and instruction:
            current.append(instruction.group(1).strip())
    return found


def measure(name, instructions):
    cost = Cost()
    for instruction in instructions:
        prefixes, mnemonic, operands = split(instruction)
        if mnemonic.startswith(("nop", "endbr")) or (mnemonic, operands) == ("xchg", ["%ax", "%ax"]):
            continue  # alignment, and what a distribution's compiler adds
        cost.instructions += 1
        cost.stores += is_store(mnemonic, operands)
        cost.locked += is_locked(prefixes, mnemonic, operands)
        target = target_of(instruction, name)
        if target:
            cost.calls[target] += 1
    return cost


def strip_brackets(text, opening, closing):
    depth, kept = 0, []
    for letter in text:
        depth += letter == opening
        if depth == 0:
            kept.append(letter)
        depth -= letter == closing and depth > 0
    return "".join(kept)


def shorten(demangled):
    """Without return type, arguments, template arguments, our namespace and the copies that a compiler makes of a function."""
    text = demangled.replace("(anonymous namespace)::", "").split(" [clone")[0]
    text = strip_brackets(strip_brackets(text, "<", ">"), "(", ")").removesuffix(" const")
    return text.split(" ")[-1].replace("gpumemshim::", "")


def short_names(names):
    """Mangled -> short, for all at once."""
    names = sorted(names)
    plain = [re.sub(r"(@plt|@@?[\w.]+)$", "", name) for name in names]
    plain = [re.sub(r"\.(isra|part|constprop)\.\d+", "", name) for name in plain]
    return dict(zip(names, map(shorten, elf_facts.tool("c++filt", *plain).splitlines()))) if names else {}


def costs(library):
    """Short name -> Cost of every function on the hot path, and the roots that the library has no code of."""
    functions = code(str(library))
    missing = [root for root in ROOTS if root not in functions]
    found, waiting, seen = {}, [root for root in ROOTS if root in functions], set()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        cost = measure(name, functions[name])
        short = short_names({name, *(target for target in cost.calls if target != POINTER)})
        waiting += [target for target in sorted(cost.calls) if target in functions and "@plt" not in target and short[target] not in SLOW]
        named = collections.Counter()
        for target, count in cost.calls.items():
            named[short.get(target, target)] += count
        cost.calls = named
        found.setdefault(short[name], Cost()).add(cost)
    return found, missing
