# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How true each element of an operator's result is where its arguments are true in part. values.py loads this.

    result_truths(torch, "bitwise_or", evaluate, operands)   # a tensor of UNKNOWN, DRAWN, KNOWN; None: as the least true argument

What one known operand decides is known: `or` with True, `and` with False, times 0, the side that where() takes, a maximum that nothing exceeds. A loop that ends by a limit
that is known, or by a flag that is not, so ends by its limit.

An operand is (value, truths or None where it is KNOWN). evaluate(values) runs the operator on CPU tensors in place of the operands and returns its first result.
"""

MOST_ELEMENTS = 1 << 16
UNKNOWN, DRAWN, KNOWN = range(3)

# Whose results only move elements: the truths move the same way.
MOVES = {"cat", "stack", "clone", "copy", "flip", "roll", "index", "index_select", "gather", "take", "repeat_interleave"}
# Element by element.
EACH = set(
    """abs add sub rsub div floor_divide remainder fmod pow neg sign sgn bitwise_xor bitwise_not logical_xor logical_not eq ne lt le gt ge floor ceil round trunc
    reciprocal sqrt rsqrt exp log sin cos tanh sigmoid isin clamp clamp_min clamp_max""".split()
)
# Where all that is open being least gives the same as its being greatest, nothing in between gives another.
MONOTONE = {"bitwise_or", "bitwise_and", "logical_or", "logical_and", "any", "all", "maximum", "minimum", "max", "min", "amax", "amin", "fmax", "fmin"}


def level(torch, value, truths):
    """The truth of each element, also where all are known."""
    return torch.full(value.shape, KNOWN, dtype=torch.uint8, device="cpu") if truths is None else truths


def extremes(torch, value):
    if value.dtype is torch.bool:
        return False, True
    info = torch.finfo(value.dtype) if value.is_floating_point() else torch.iinfo(value.dtype)
    return info.min, info.max


def is_monotone(torch, name, operands):
    booleans = all(value.dtype is torch.bool for value, _ in operands)
    return name in MONOTONE and (booleans or not name.startswith("bitwise"))


def filled(torch, operands, below, which):
    """The values, with what is less true than `below` at one extreme."""
    return [value if truths is None else torch.where(truths >= below, value, extremes(torch, value)[which]) for value, truths in operands]


def decided(torch, evaluate, operands):
    truths = None
    for below in (DRAWN, KNOWN):
        low, high = (evaluate(filled(torch, operands, below, which)) for which in (0, 1))
        truths = torch.zeros(low.shape, dtype=torch.uint8, device="cpu") if truths is None else truths
        truths[low == high] = below
    return truths


def each(torch, operands):
    least = torch.full((), KNOWN, dtype=torch.uint8, device="cpu")
    for value, truths in operands:
        least = torch.minimum(least, level(torch, value, truths))
    return least


def zeros_decide(torch, operands):
    truths = each(torch, operands)
    for value, own in operands:
        truths = torch.maximum(truths, torch.where(value == 0, level(torch, value, own), 0))
    return truths


def chosen(torch, condition, taken, other):
    """Of where(): the truth of the side that is taken, and none where that is not known."""
    sides = [level(torch, *side) for side in (taken, other)]
    result = torch.where(condition[0], *sides)
    return result if condition[1] is None else torch.minimum(result, condition[1])


def result_truths(torch, name, evaluate, operands):
    if sum(value.numel() for value, _ in operands) > MOST_ELEMENTS:
        return None
    if all(truths is not None and not bool(truths.any()) for _, truths in operands):
        return None
    if is_monotone(torch, name, operands):
        return decided(torch, evaluate, operands)
    if name in ("mul", "bitwise_and") and len(operands) == 2:
        return zeros_decide(torch, operands)
    if name == "where" and len(operands) == 3:
        return chosen(torch, *operands)
    if name == "masked_fill" and len(operands) == 2:
        return chosen(torch, operands[1], (operands[0][0], None), operands[0])
    if name in MOVES:
        known = [level(torch, *operand) for operand in operands]
        if name in ("index", "index_select", "gather", "take", "repeat_interleave"):
            if any(truths is not None for _, truths in operands[1:]):
                return None
            known[1:] = [value for value, _ in operands[1:]]
        return evaluate(known)
    return each(torch, operands) if name in EACH else None
