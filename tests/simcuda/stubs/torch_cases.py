# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Small training programs on device='cuda', one function a case; stubs_e2e.py runs this file through simcuda/run.

  torch_cases.py CASE...      # prints one JSON line {case: {"peak": bytes, ...}}; a failing case ends the run
"""
import ctypes
import gc
import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

MIB = 1 << 20
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def expect(condition, *what):
    if not condition:
        raise AssertionError(what)


def train(model, optimizer, make_batch, steps=3):
    for _ in range(steps):
        loss = model(make_batch()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def mlp():
    return nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


def gpt(**optimizer):
    width, vocabulary = 256, 1000
    model = nn.Sequential(nn.Embedding(vocabulary, width), Block(width, 8), Block(width, 8), nn.LayerNorm(width),
                          nn.Linear(width, vocabulary)).cuda()
    adam = torch.optim.AdamW(model.parameters(), **optimizer)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        train(model, adam, lambda: torch.randint(0, vocabulary, (4, 128), device="cuda"))


@case
def properties():
    expect(torch.cuda.is_available())
    device = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    expect((device.major, device.minor) == (9, 0), device)
    expect(0 < free < total == device.total_memory == int(os.environ["SIMCUDA_MEM_MB"]) * MIB, free, total)
    expect(torch.backends.cudnn.version() == 91900)
    expect(torch.cuda.nccl.version() == (2, 28, 9))


@case
def mlp_adamw():
    model = mlp()
    train(model, torch.optim.AdamW(model.parameters()), lambda: torch.randn(64, 512, device="cuda"))
    # Parameters, gradients (freed by zero_grad), two moments: all in 512-byte blocks.
    parameters = sum(p.numel() * 4 for p in model.parameters())
    expect(torch.cuda.max_memory_allocated() >= 4 * parameters, torch.cuda.max_memory_allocated(), parameters)


@case
def gpt_fused():
    gpt(fused=True)


@case
def gpt_foreach():
    gpt(foreach=True)


@case
def convolution():
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        for layout in (torch.contiguous_format, torch.channels_last):
            model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.Conv2d(16, 16, 3, groups=4), nn.ConvTranspose2d(16, 8, 2, stride=2),
                                  nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
            model = model.cuda().to(memory_format=layout)
            train(model, torch.optim.SGD(model.parameters(), 0.1),
                  lambda: torch.randn(2, 3, 32, 32, device="cuda").to(memory_format=layout), steps=1)


@case
def recurrent():
    for make in (lambda: nn.LSTM(32, 64, 2), lambda: nn.LSTM(32, 64, 2, bidirectional=True, dropout=0.1),
                 lambda: nn.LSTM(32, 64, 2, proj_size=16), lambda: nn.GRU(32, 64), lambda: nn.RNN(32, 64)):
        net = make().cuda()
        output, _ = net(torch.randn(10, 4, 32, device="cuda"))
        output.sum().backward()
        net.flatten_parameters()


@case
def checkpointing():
    from torch.utils.checkpoint import checkpoint
    model = mlp()
    for reentrant in (False, True):
        x = torch.randn(8, 512, device="cuda", requires_grad=True)
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()


@case
def cuda_graph():
    model, x, stream = nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            model(x).sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    expect(y.shape == (8, 64) and torch.cuda.memory_allocated() == before)


@case
def streams_and_events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.Stream()
    start.record()
    with torch.cuda.stream(stream):
        x = torch.randn(1000, device="cuda")
        x.record_stream(torch.cuda.current_stream())
    end.record()
    end.synchronize()
    expect(start.query() and end.query() and start.elapsed_time(end) >= 0)


@case
def pinned_loader():
    data = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4))
    seen = 0.0
    for batch, in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=True):
        expect(batch.is_pinned())
        seen += batch.to("cuda", non_blocking=True).cpu().sum().item()
    expect(seen == sum(range(64)), seen)


@case
def out_of_memory():
    message = ""
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        message = str(error)
    expect("Tried to allocate 64.00 GiB. GPU 0 has a total capacity of 4.00 GiB of which" in message, message)
    # The message's middle comes from the process list of NVML's stub.
    expect("Including non-PyTorch memory, this process has" in message, message)
    expect(torch.ones(4, device="cuda").numel() == 4)  # and life goes on


@case
def memory_history():
    torch.cuda.memory._record_memory_history()
    x = torch.randn(1000, 1000, device="cuda")
    address = x.data_ptr()
    del x
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [entry["action"] for entry in snapshot["device_traces"][0] if entry.get("addr") == address]
    expect(actions[-3:] == ["alloc", "free_requested", "free_completed"], actions)


@case
def fresh_memory_is_zero():
    old = torch.full((100000,), 7.0).cuda()
    address = old.data_ptr()
    expect(old.cpu().sum() == 700000)
    del old
    new = torch.empty(100000, device="cuda")
    expect(new.data_ptr() == address and new.cpu().abs().max() == 0)
    probe = os.environ.get("REPORT_PROBE", "")
    if probe and probe in os.environ.get("LD_PRELOAD", ""):
        expect(ctypes.CDLL(probe).report_probe_calls() > 0)


@case
def gradient_scaler():
    scaler, model = torch.amp.GradScaler("cuda"), nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(2, 8, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


@case
def other_libraries():
    x = torch.randn(16, 16, device="cuda")
    expect(torch.fft.rfft(x).shape == (16, 9))
    for function in (torch.linalg.inv, torch.linalg.qr, torch.linalg.svd, torch.linalg.eigh, torch.linalg.cholesky):
        function(x)
    torch.linalg.solve(x, x)
    torch.linalg.lstsq(x, x)
    torch.linalg.eig(x.cpu())
    expect((torch.eye(8).to_sparse_csr().cuda() @ torch.randn(8, 4, device="cuda")).shape == (8, 4))
    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return 2 * x; }")
    expect(twice(x).shape == x.shape)
    F.grid_sample(torch.randn(1, 3, 8, 8, device="cuda"), torch.zeros(1, 8, 8, 2, device="cuda"), align_corners=True)
    attention = nn.MultiheadAttention(64, 4).cuda().bfloat16()
    tokens = torch.randn(8, 2, 64, device="cuda", dtype=torch.bfloat16)
    attention(tokens, tokens, tokens)[0].sum().backward()


@case
def profiler():
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as recorded:
        torch.randn(1000, device="cuda").sum()
    expect(any(event.key == "aten::sum" for event in recorded.key_averages()))


@case
def distributed():
    import torch.distributed as dist
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    model = nn.parallel.DistributedDataParallel(mlp())
    train(model, torch.optim.SGD(model.parameters(), 0.1), lambda: torch.randn(4, 512, device="cuda"), steps=2)
    gathered = [torch.empty(4, device="cuda")]
    dist.all_gather(gathered, torch.arange(4.0).cuda())
    expect(gathered[0].tolist() == [0, 1, 2, 3], gathered)
    dist.destroy_process_group()


@case
def two_devices():
    expect(torch.cuda.device_count() == 2)
    before = [torch.cuda.memory_allocated(i) for i in range(2)]
    x = torch.ones(1 << 20, device="cuda:1")
    expect(torch.cuda.memory_allocated(1) - before[1] == 4 * MIB and torch.cuda.memory_allocated(0) == before[0])
    expect(x.to("cuda:0").device.index == 0 and x.cpu().sum() == 0)  # a kernel's ones are never written
    free = [torch.cuda.mem_get_info(i)[0] for i in range(2)]
    expect(all(0 < f < 4096 * MIB for f in free), free)
    expect(torch.cuda.can_device_access_peer(0, 1) in (True, False))


@case
def expandable_segments():
    model = mlp()
    train(model, torch.optim.AdamW(model.parameters()), lambda: torch.randn(64, 512, device="cuda"))
    expect(any(s["is_expandable"] for s in torch.cuda.memory._snapshot()["segments"]))
    del model
    gc.collect()
    torch.cuda.empty_cache()
    caught = False
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        caught = True
    expect(caught)


@case
def malloc_async():
    expect(torch.cuda.get_allocator_backend() == "cudaMallocAsync")
    model = mlp()
    train(model, torch.optim.AdamW(model.parameters()), lambda: torch.randn(64, 512, device="cuda"))
    expect(torch.cuda.max_memory_allocated() > 16 * MIB, torch.cuda.max_memory_allocated())
    caught = False
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        caught = True
    expect(caught)


@case
def found_by_data():
    """Shapes that the data decide, under SIMCUDA_DATA_DEPENDENT, of 100 and of 4 Mi elements: FOUND is the share."""
    share = float(os.environ["FOUND"])
    found, different = int(100 * share), max(int(100 * share), 1)
    x, large = torch.zeros(100, device="cuda"), torch.zeros(1 << 22, dtype=torch.bool, device="cuda")
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.half, torch.bfloat16, torch.float32, torch.float64):
        expect(torch.nonzero(x.to(dtype)).shape == (found, 1), dtype)
    expect(torch.nonzero(x.view(10, 10)).shape == (found, 2))
    expect(torch.nonzero(large).shape == (int((1 << 22) * share), 1))
    expect(x[x > 0].shape == torch.masked_select(x, x > 0).shape == torch.where(x > 0)[0].shape == (found,))
    expect(torch.argwhere(x).shape == (found, 1))
    x[x > 0] = torch.ones((), device="cuda")
    for dtype in (torch.uint8, torch.int32, torch.int64, torch.half, torch.float32):
        values, inverse, counts = torch.unique(x.to(dtype), return_inverse=True, return_counts=True)
        expect((len(values), len(inverse), len(counts)) == (different, 100, different), dtype, values.shape, counts.shape)
        expect(len(torch.unique(x.to(dtype))) == different, dtype)
    values, counts = torch.unique_consecutive(x, return_counts=True)
    expect(len(values) == len(counts) == different)


@case
def single_values():
    """What a program asks of one element: its copy from the host is kept, what kernels make is zero."""
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.half, torch.bfloat16, torch.float32, torch.float64):
        three = torch.tensor(3, dtype=dtype, device="cuda")
        truths = [three == 3, three != 3, three > 2, three >= 4, three < 4, three <= 2, 3 == three, 2 < three]
        expect([bool(truth) for truth in truths] == [True, False, True, False, True, False, True, True], dtype)
    x = torch.randn(1000, device="cuda")
    expect(bool(x.sum() == 0) and not bool(x.sum() > 0) and not bool((x > 1).any()))
    expect(bool((x > 1).all()) and bool(torch.isfinite(x).all()) and not bool(torch.isnan(x).any()) and torch.equal(x, x.clone()))
    yes = x.sum() > 0
    expect(not bool(yes & yes) and not bool(torch.logical_and(yes, yes)))


def run(name):
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    CASES[name]()
    result = {"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    gc.collect()
    torch.cuda.empty_cache()
    return result


def main():
    results = {}
    for name in sys.argv[1:]:
        print(f"case {name}", file=sys.stderr, flush=True)
        results[name] = run(name)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
