# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Checks of counters: memory_stats and its relatives, limits and errors, streams, pinned memory (see memory_checks.py)."""

import gc
import threading

import torch
from torch import cuda

MIB = 1 << 20
SIZES = (1, 511, 512, 513, 4096, 100_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 11 * MIB, 21 * MIB)


def blob(size, **more):
    return torch.empty(size, dtype=torch.uint8, device="cuda", **more)


def reported():
    """What is not zero."""
    return {name: value for name, value in cuda.memory_stats().items() if value}


def brief():
    return [cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved(), cuda.max_memory_reserved()]


def check_names_of_stats():
    return sorted(cuda.memory_stats())


def check_names_of_nested_stats():
    return sorted((name, sorted(part) if isinstance(part, dict) else part) for name, part in cuda.memory_stats_as_nested_dict().items())


def check_stats_of_one_block():
    kept = blob(5 * MIB)
    return reported(), kept.nbytes


def check_stats_after_a_free():
    blob(5 * MIB)
    return reported()


def check_stats_of_many_sizes():
    kept = [blob(size) for size in SIZES]
    return reported(), len(kept)


def check_rounding_of_each_size():
    answers = []
    for size in SIZES:
        before = cuda.memory_allocated()
        kept = blob(size)
        answers.append(cuda.memory_allocated() - before)
        del kept
    return answers


def check_requested_bytes():
    kept = [blob(size) for size in SIZES]
    stats = cuda.memory_stats()
    return [stats.get(f"requested_bytes.{pool}.current") for pool in ("all", "small_pool", "large_pool")], len(kept)


def check_peaks():
    first = blob(30 * MIB)
    second = blob(40 * MIB)
    del first
    return brief(), second.nbytes


def check_reset_of_peaks():
    kept = blob(30 * MIB)
    blob(40 * MIB)
    cuda.reset_peak_memory_stats()
    return brief(), kept.nbytes


def check_reset_of_max_memory_allocated():
    blob(40 * MIB)
    cuda.reset_max_memory_allocated()
    cuda.reset_max_memory_cached()
    return brief()


def check_reset_of_accumulated_stats():
    for _ in range(7):
        blob(MIB)
    cuda.reset_accumulated_memory_stats()
    blob(2 * MIB)
    return reported()


def check_counts_over_a_loop():
    for i in range(100):
        blob(1000 * i + 1)
    return reported()


def check_reuse_of_blocks():
    reserved = []
    for i in range(10):
        kept = [blob(3 * MIB) for _ in range(i % 4 + 1)]
        reserved.append((cuda.memory_reserved(), len(kept)))
    return reserved


def check_splits_of_a_segment():
    kept = [blob(2 * MIB) for _ in range(9)]
    del kept[1::2]
    stats = cuda.memory_stats()
    return [stats.get(f"inactive_split{kind}.all.current") for kind in ("", "_bytes")], brief()


def check_summary():
    kept = blob(3 * MIB)
    return cuda.memory_summary(abbreviated=True), kept.nbytes


def check_whole_summary():
    kept = [blob(size) for size in SIZES]
    return cuda.memory_summary(), len(kept)


def check_free_memory_of_the_device():
    free, total = cuda.mem_get_info()
    kept = blob(50 * MIB)
    return free - cuda.mem_get_info()[0], total, kept.nbytes


def check_free_memory_by_the_runtime():
    return cuda.cudart().cudaMemGetInfo(0)


def check_ways_to_name_a_device():
    kept = blob(MIB)
    return [cuda.memory_allocated(name) for name in (None, 0, "cuda", "cuda:0", torch.device("cuda", 0))], kept.nbytes


def check_a_device_that_is_none():
    return cuda.memory_allocated(17)


def check_empty_cache():
    kept = blob(MIB)
    blob(30 * MIB)
    before = brief()
    cuda.empty_cache()
    return before, brief(), kept.nbytes


def check_a_cycle_that_is_collected():
    kept = [blob(5 * MIB)]
    kept.append(kept)
    del kept
    before = brief()
    gc.collect()
    return before, brief()


def check_out_of_memory():
    return blob(1 << 45)


def check_out_of_memory_is_counted():
    for _ in range(2):
        try:
            blob(1 << 45)
        except torch.OutOfMemoryError:
            pass
    stats = cuda.memory_stats()
    return stats.get("num_ooms"), stats.get("num_alloc_retries")


def check_out_of_memory_is_a_runtime_error():
    try:
        blob(1 << 45)
    except RuntimeError as error:
        return [kind.__name__ for kind in type(error).__mro__], "Tried to allocate" in str(error)


def check_sizes_that_are_none():
    return blob(1 << 62)


def check_work_after_out_of_memory():
    try:
        blob(1 << 45)
    except torch.OutOfMemoryError:
        pass
    kept = blob(10 * MIB)
    return reported(), kept.nbytes


def check_cached_memory_is_given_back_for_a_large_block():
    free = cuda.mem_get_info()[0]
    part = blob(free // 2)
    del part
    kept = blob(free // 4 * 3)
    stats = cuda.memory_stats()
    return stats.get("num_alloc_retries"), stats.get("num_ooms"), kept.nbytes == free // 4 * 3


def check_limit_of_a_process():
    total = cuda.get_device_properties(0).total_memory
    cuda.set_per_process_memory_fraction(0.25)
    try:
        kept = blob(total // 8)
        limit = cuda.get_per_process_memory_fraction()
        try:
            blob(total // 4)
        except torch.OutOfMemoryError as error:
            return limit, "allowed" in str(error), kept.nbytes
        return limit, "no error", kept.nbytes
    finally:
        cuda.set_per_process_memory_fraction(1.0)


def check_limits_that_are_none():
    return cuda.set_per_process_memory_fraction(1.5)


def check_observers_of_out_of_memory():
    heard = []
    torch._C._cuda_attach_out_of_memory_observer(lambda device, size, total, free: heard.append((device, size, total, free)))
    try:
        blob(1 << 45)
    except torch.OutOfMemoryError:
        pass
    return heard


def check_recorded_streams():
    side = cuda.Stream()
    kept = blob(5 * MIB)
    kept.record_stream(side)
    del kept
    before = brief()
    side.synchronize()
    again = blob(5 * MIB)
    return before, brief(), again.nbytes


def check_streams_have_pools_of_their_own():
    first = blob(5 * MIB)
    del first
    with cuda.stream(cuda.Stream()):
        second = blob(5 * MIB)
    return brief(), second.nbytes


def check_freed_on_another_stream():
    side, event = cuda.Stream(), cuda.Event()
    with cuda.stream(side):
        kept = blob(3 * MIB)
        event.record()
    cuda.current_stream().wait_event(event)
    del kept
    return brief()


def check_memory_by_hand():
    memory = cuda.caching_allocator_alloc(5 * MIB)
    before = brief()
    cuda.caching_allocator_delete(memory)
    return before, brief()


def check_memory_by_hand_on_a_stream():
    memory = cuda.caching_allocator_alloc(5 * MIB, 0, cuda.Stream())
    before = brief()
    cuda.caching_allocator_delete(memory)
    return before, brief()


def check_memory_that_is_not_ours():
    return cuda.caching_allocator_delete(4096)


def check_allocator_that_is_switched_off():
    cuda.caching_allocator_enable(False)
    try:
        kept = blob(3 * MIB)
        return brief(), kept.nbytes
    finally:
        cuda.caching_allocator_enable(True)


def check_threads():
    def work():
        for i in range(50):
            blob(10_000 * i + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = cuda.memory_stats()
    return stats.get("allocation.all.allocated"), stats.get("allocation.all.freed"), cuda.memory_allocated()


def check_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    numbers = []
    for _ in range(3):
        model(torch.zeros(64, 300, device="cuda")).sum().backward()
        numbers.append(brief())
        optimizer.step()
        optimizer.zero_grad()
        numbers.append(brief())
    return numbers


def check_recomputed_activations():
    from torch.utils.checkpoint import checkpoint

    layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(4)).cuda()
    value = torch.zeros(512, 256, device="cuda", requires_grad=True)
    for layer in layers:
        value = checkpoint(layer, value, use_reentrant=False)
    value.sum().backward()
    return reported()


def check_storage_that_is_resized():
    kept = blob(MIB)
    kept.untyped_storage().resize_(9 * MIB)
    grown = brief()
    kept.untyped_storage().resize_(0)
    return grown, brief()


def check_pinned_memory():
    kept = torch.empty(3 * MIB, dtype=torch.uint8).pin_memory()
    stats = {name: value for name, value in cuda.host_memory_stats().items() if value and "time" not in name}
    return stats, kept.is_pinned()


def check_names_of_host_stats():
    return sorted(cuda.host_memory_stats())


def check_pinned_memory_is_reused():
    before = cuda.host_memory_stats()
    for _ in range(5):
        torch.empty(MIB, dtype=torch.uint8, pin_memory=True)
    after = cuda.host_memory_stats()
    return {name: after[name] - before[name] for name in after if "time" not in name and after[name] != before[name]}


def check_registered_memory():
    kept = torch.empty(MIB, dtype=torch.uint8)
    runtime = cuda.cudart()
    answers = [int(runtime.cudaHostRegister(kept.data_ptr(), kept.nbytes, 0)), kept.is_pinned(), int(runtime.cudaHostUnregister(kept.data_ptr()))]
    return answers, kept.is_pinned()
