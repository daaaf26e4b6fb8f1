# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Checks of memory pools, CUDA graphs, pluggable allocators and memory that processes share (see memory_checks.py)."""

import os
import threading

import torch
from memory_checks_snapshots import segments
from memory_checks_stats import MIB, blob, brief, reported
from torch import cuda


def pluggable():
    return cuda.memory.CUDAPluggableAllocator(os.environ["GPUMEMSHIM_TEST_ALLOCATOR"], "test_malloc", "test_free")


def captured(graph, pool=None, size=3 * MIB):
    """A graph that allocates, and what it holds. Launched once: memory of a graph that never ran cannot be freed (cudaMallocAsync)."""
    with cuda.graph(graph, pool=pool):
        kept = blob(size)
        kept.add_(1)
    graph.replay()
    return kept


def pools_of_segments():
    """How many segments are in how many pools but the common one."""
    ids = [tuple(segment.get("segment_pool_id", (0, 0))) for segment in cuda.memory_snapshot()]
    return sorted(ids.count(pool) for pool in set(ids) if pool != (0, 0))


def check_a_pool():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        kept = blob(3 * MIB)
    return pools_of_segments(), brief(), kept.nbytes


def check_a_pool_keeps_apart():
    first = blob(3 * MIB)
    del first
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        kept = blob(3 * MIB)
    return segments(), kept.nbytes


def check_snapshot_of_a_pool():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        kept = [blob(3 * MIB), blob(30 * MIB)]
    return [segment["total_size"] for segment in pool.snapshot()], len(kept)


def check_users_of_a_pool():
    pool = cuda.MemPool()
    counts = [pool.use_count()]
    with cuda.use_mem_pool(pool):
        counts.append(pool.use_count())
        kept = blob(MIB)
    counts.append(pool.use_count())
    del kept
    return counts


def check_pools_in_pools():
    outer, inner = cuda.MemPool(), cuda.MemPool()
    with cuda.use_mem_pool(outer):
        kept = [blob(MIB)]
        with cuda.use_mem_pool(inner):
            kept.append(blob(2 * MIB))
        kept.append(blob(3 * MIB))
    return pools_of_segments(), len(kept)


def check_a_pool_that_is_dropped():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        blob(5 * MIB)
    del pool
    before = brief()
    cuda.empty_cache()
    return before, brief()


def check_a_pool_for_hard_times():
    pool = cuda.MemPool(use_on_oom=True)
    with cuda.use_mem_pool(pool):
        blob(400 * MIB)
    free = cuda.mem_get_info()[0]
    kept = [blob(free - 100 * MIB)]
    kept.append(blob(300 * MIB))
    return cuda.memory_stats().get("num_ooms"), len(kept)


def check_a_pool_on_one_thread():
    pool, kept = cuda.MemPool(), []

    def work():
        kept.append(blob(MIB))

    with cuda.use_mem_pool(pool):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        kept.append(blob(MIB))
    return pools_of_segments(), len(kept)


def check_a_pool_of_a_pluggable_allocator():
    pool = cuda.MemPool(pluggable().allocator())
    with cuda.use_mem_pool(pool):
        kept = blob(3 * MIB)
    return pools_of_segments(), brief(), kept.nbytes


def check_the_allocator_cannot_be_changed_now():
    return cuda.memory.change_current_allocator(pluggable())


def check_a_pluggable_allocator_that_is_none():
    return cuda.memory.CUDAPluggableAllocator("/no/such/library.so", "a", "b")


def check_a_pluggable_function_that_is_none():
    return cuda.memory.CUDAPluggableAllocator(os.environ["GPUMEMSHIM_TEST_ALLOCATOR"], "no_such_function", "test_free")


def check_a_graph():
    graph = cuda.CUDAGraph()
    kept = captured(graph)
    for _ in range(3):
        graph.replay()
    cuda.synchronize()
    return reported(), kept.nbytes


def check_pools_of_a_graph():
    graph = cuda.CUDAGraph()
    kept = captured(graph)
    return pools_of_segments(), segments(), kept.nbytes


def check_graphs_that_share_a_pool():
    pool = cuda.graph_pool_handle()
    graphs = [cuda.CUDAGraph(), cuda.CUDAGraph()]
    kept = [captured(graph, pool) for graph in graphs]
    return pools_of_segments(), brief(), len(kept), len({graph.pool() for graph in graphs})


def check_a_graph_that_is_reset():
    graph = cuda.CUDAGraph()
    kept = captured(graph)
    before = brief()
    graph.reset()
    del kept
    cuda.empty_cache()
    return before, brief()


def check_a_capture_that_fails():
    graph = cuda.CUDAGraph()
    try:
        with cuda.graph(graph):
            blob(MIB)
            cuda.synchronize()
    finally:
        cuda.synchronize()


def check_work_after_a_failed_capture():
    kept = blob(5 * MIB)
    return brief(), cuda.is_current_stream_capturing(), kept.nbytes


def check_graphed_callables():
    model = torch.nn.Linear(64, 64).cuda()
    sample = torch.zeros(8, 64, device="cuda", requires_grad=True)
    graphed = cuda.make_graphed_callables(model, (sample,))
    graphed(torch.zeros(8, 64, device="cuda", requires_grad=True)).sum().backward()
    return brief()


def check_state_of_a_graphs_pool():
    graph = cuda.CUDAGraph()
    kept = captured(graph)
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    return type(state).__name__, kept.nbytes


def check_a_graph_that_runs_out_of_memory():
    graph = cuda.CUDAGraph()
    try:
        with cuda.graph(graph):
            blob(1 << 45)
    finally:
        cuda.synchronize()


def check_a_handle_for_other_processes():
    kept = blob(5 * MIB)
    handle = kept.untyped_storage()._share_cuda_()
    return [type(part).__name__ for part in handle], handle[2:4], kept.nbytes


def check_a_handle_of_a_part():
    kept = [blob(3 * MIB), blob(3 * MIB)]
    handle = kept[1].untyped_storage()._share_cuda_()
    return handle[2:4]


def check_memory_of_ended_processes():
    return cuda.ipc_collect(), brief()


def check_expandable_segments_switched_on():
    before = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    cuda.memory._set_allocator_settings("expandable_segments:True")
    try:
        kept = [blob(30 * MIB), blob(3 * MIB)]
        return segments(), brief(), len(kept)
    finally:
        cuda.memory._set_allocator_settings(before or "expandable_segments:False")


def check_host_pools_and_copies():
    host = torch.zeros(MIB, dtype=torch.uint8, pin_memory=True)
    kept = host.to("cuda", non_blocking=True)
    cuda.synchronize()
    back = kept.to("cpu", non_blocking=True)
    return brief(), back.nbytes, back.is_pinned()
