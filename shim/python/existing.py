# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What PyTorch's allocator held before recording began, by its own snapshot: a part of the helper. PyTorch makes the snapshot of a device under the
allocator's lock; what other threads do meanwhile is in the trace, and a reader puts both together (trace.proto, EXISTING)."""

BLOCK, SEGMENT, MAPPING = 1, 2, 3  # of an EXISTING event: shared/event.h
KNOWN, NO_TORCH, NO_SNAPSHOT, NOT_ASKED, OTHER_CLASSES = 0, 1, 2, 3, 4  # trace.proto's ExistingResult
PAGES = {"small": 2 << 20, "large": 20 << 20}  # of an expandable segment: CUDACachingAllocator.cpp's kSmallBuffer and kLargeBuffer


def tell_existing():
    if not record.existing_is_asked():
        return
    result = OTHER_CLASSES
    try:
        result = tell_snapshot()
    finally:
        record.existing_end(result)


def tell_snapshot():
    take = dict.get(module_fields("torch._C"), "_cuda_memorySnapshot")
    if take is None:
        return NO_TORCH
    if dict.get(module_fields("torch.cuda"), "_initialized") is not True:
        return KNOWN  # it has nothing
    snapshot = taken(take)
    segments = dict.get(snapshot, "segments") if is_a(snapshot, dict) else None
    if segments is None:
        return NO_SNAPSHOT
    for segment in list.copy(segments):
        tell_segment(segment)
    return KNOWN


def taken(take):
    """The snapshot, without the allocator's history, which may be long. None: this allocator has none."""
    whole = record.code(dict.get(module_fields("torch.cuda.memory"), "memory_snapshot"))
    if whole is not None and "include_traces" in whole.co_varnames:
        ways = (((0, 0, False),), (None,), ())
    else:
        ways = ((None,), ())  # from 2.6 on, and before
    for arguments in ways:
        try:
            return take(*arguments)
        except Exception as error:
            if not is_own(error):  # a signal handler of the program
                raise
    return None


def tell_segment(segment):
    device, stream, at = segment["device"], segment["stream"], segment["address"]
    if segment.get("is_expandable"):
        record.existing(MAPPING, device, at, segment["total_size"], PAGES.get(segment["segment_type"], 0), stream)
    else:
        record.existing(SEGMENT, device, at, segment["total_size"], 0, stream)
    for block in list.copy(segment["blocks"]):
        size = block["size"]
        if block["state"] == "active_allocated":
            record.existing(BLOCK, device, at, size, block.get("requested_size", 0), stream)
        at += size
