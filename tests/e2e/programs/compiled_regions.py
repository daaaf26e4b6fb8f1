# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Code as TorchInductor generates it, without Triton: compiled_regions_test.py looks at what is said of it. The generated file is written here, in the
form and place of a real one, and PyTorch's own table of its lines is filled as PyCodeCache.load_by_key_path does; the rest is the recorder's."""

import hashlib
import linecache
import pathlib
import sys
import tempfile
import types

import torch
from torch import nn
from torch._inductor.codecache import PyCodeCache

GENERATED = """
import torch
def call(args):
    x, weight_0, weight_1 = args
    buf0 = torch.empty_strided((1024, 512), (512, 1), device="cuda")
    torch.mm(x, weight_0, out=buf0)
    buf1 = torch.empty_strided((1024, 256), (256, 1), device="cuda")
    torch.mm(buf0, weight_1, out=buf1)
    buf2 = torch.empty_strided((1024, 1), (1, 1), device="cuda")
    return buf0, buf1, buf2
"""


class Block(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(a, b))

    def forward(self, x):
        return x @ self.weight  # TRUTH of buf0 and buf1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(256, 512), Block(512, 256)])
        self.compiled = None

    def forward(self, x):
        if self.compiled is not None:
            return self.compiled([x, self.layers[0].weight, self.layers[1].weight])  # TRUTH of buf2
        for layer in self.layers:
            x = layer(x)  # TRUTH of the call
        return x


def line_of(text):
    return [text in line for line in linecache.getlines(__file__)].index(True) + 1


def trace_of(stale=""):
    """As torch.fx has it, of line `x @ self.weight`; `stale`: of a text that is no line of the program any more."""
    outer, inner = line_of("TRUTH of the call\n"), line_of("TRUTH of buf0 and buf1\n")
    inner_text = linecache.getline(__file__, inner).strip() + stale
    return (
        f'  File "{__file__}", line {outer}, in forward\n    {linecache.getline(__file__, outer).strip()}\n'
        f'  File "{__file__}", line {inner}, in forward\n    {inner_text}\n'
    )


def compiled(folder):
    name = "c" + hashlib.sha256(GENERATED.encode()).hexdigest().translate(str.maketrans("0189", "2345"))[:51]
    path = pathlib.Path(folder) / name[1:3] / f"{name}.py"
    path.parent.mkdir()
    path.write_text(GENERATED)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(GENERATED, str(path), "exec"), module.__dict__)
    pieces = [(5, trace_of()), (7, trace_of()), (9, trace_of(stale=" * 2"))]
    PyCodeCache.linemaps[str(path)] = list(zip(*pieces))
    return module.call


with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    net = Net().cuda()
    net.compiled = compiled(folder)
    kept = []
    for _ in range(int(sys.argv[1])):
        kept.append(net(torch.randn(1024, 256, device="cuda")))
