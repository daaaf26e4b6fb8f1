# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Operations of PyTorch that ask for which architecture their code was compiled, on one device after the other.

    devices.py "NAME SIMCUDA_CC=89 ..." ...     prints for each device a JSON line {name, capability, built_for, failures: {operation: message}}

PyTorch is imported once, and CUDA begins in a forked process of its own for each device: its libraries ask once a process.
"""

import json
import os
import sys
import warnings

import torch
from torch.nn import functional as F

OPERATIONS = {}


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


def ones(*shape, **options):
    return torch.ones(*shape, device="cuda", **options)


def numbers(*shape):
    return torch.zeros(shape, dtype=torch.long, device="cuda")


@operation
def cumulative_sums():
    ones(1000).cumsum(0)
    ones(8, 385).cumsum(1)
    ones(1000).cumprod(0)
    ones(1000).logcumsumexp(0)


@operation
def sort():
    ones(100_000).sort()
    ones(8, 385).sort(1)
    ones(8, 10_000).sort(dim=1, stable=True)


@operation
def top():
    ones(8, 10_000).topk(5)
    ones(1_000_000).topk(5)


@operation
def nonzero():
    assert tuple(ones(1000).nonzero().shape)[1] == 1
    torch.repeat_interleave(numbers(10))


@operation
def masks():
    x = ones(1000)
    x[x > 0]
    x.masked_select(x > 0)
    x.masked_scatter_(x > 0, ones(1000))


@operation
def unique():
    ones(1000).unique()
    ones(100, 3).unique(dim=0)
    ones(100).unique_consecutive(return_counts=True)


@operation
def permutation():
    torch.randperm(100_000, device="cuda")
    torch.randperm(100, device="cuda")


@operation
def backward_of_indexing():
    x = ones(1000, 4, requires_grad=True)
    x[numbers(3000)].sum().backward()


@operation
def backward_of_embedding():
    tokens = numbers(8, 385)
    torch.nn.Embedding(50257, 64, device="cuda")(tokens).sum().backward()
    torch.nn.EmbeddingBag(5000, 64, device="cuda")(tokens).sum().backward()


@operation
def mode():
    ones(1000).mode()
    ones(8, 10_000).mode()


@operation
def sparse():
    torch.sparse_coo_tensor(numbers(2, 10), ones(10), (4, 4)).coalesce()
    ones(10, 10).to_sparse_csr()


@operation
def attention():
    for dtype in (torch.float32, torch.bfloat16):
        q = ones(2, 4, 128, 64, dtype=dtype, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        F.scaled_dot_product_attention(q, q, q, attn_mask=ones(2, 4, 128, 128, dtype=dtype)).sum().backward()


def properties():
    """What kernels and PyTorch's buffers are sized by, and the sizes of one reduction's."""
    device = torch.cuda.get_device_properties(0)
    names = ("max_threads_per_multi_processor", "regs_per_multiprocessor", "shared_memory_per_multiprocessor", "shared_memory_per_block_optin", "L2_cache_size",
             "memory_bus_width", "memory_clock_rate", "clock_rate")
    found = {name: getattr(device, name) for name in names if hasattr(device, name)}
    x = ones(2048, 3072)
    torch.cuda.memory._record_memory_history(context=None)
    x.mean()
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return {**found, "reduction": [entry["size"] for entry in entries if entry["action"] == "alloc"]}


def failures():
    found = {}
    for name, function in OPERATIONS.items():
        try:
            function()
            torch.cuda.synchronize()
        except Exception as error:
            found[name] = str(error).splitlines()[0]
    return found


def on_device(description):
    name, *settings = description.split(" ")
    os.environ.update(setting.split("=") for setting in settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = failures()
        answer = {"name": name, "capability": list(torch.cuda.get_device_capability()), "built_for": torch._C._cuda_getArchFlags().split(), "failures": found}
        if not found:
            answer["properties"] = properties()
        print(json.dumps(answer), flush=True)


def main():
    for description in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            on_device(description)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{description}: ended with {status}")


main()
