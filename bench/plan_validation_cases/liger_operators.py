# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One operator, forward and backward ten times, as PyTorch or transformers has it or as Liger's Triton kernel: the median of the ten peaks.

    python liger_operators.py swiglu liger --size 8192
"""

import argparse
import statistics

import counters
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm


def cross_entropy(kind, vocabulary):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    scores = torch.randn(8 * 2048, vocabulary, requires_grad=True, device="cuda")
    target = torch.randint(vocabulary, (8 * 2048, 1), device="cuda").squeeze(1)
    if kind == "liger":
        return lambda: LigerCrossEntropyFunction.apply(scores, target, -100).backward()
    return lambda: nn.functional.cross_entropy(scores, target).backward()


def fused_linear_cross_entropy(kind, tokens):
    """The source makes both heads, whichever it measures."""
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    heads = [nn.Linear(4096, 128256, bias=False, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    x = torch.randn(tokens, 4096, requires_grad=True, dtype=torch.bfloat16, device="cuda")
    target = torch.randint(128256, (tokens, 1), device="cuda").squeeze(1)
    if kind == "liger":
        return lambda: LigerFusedLinearCrossEntropyFunction.apply(x, heads[1].weight, target).backward()
    return lambda: nn.functional.cross_entropy(heads[0](x), target).backward()


class Fused(LlamaMLP):
    """As Liger writes it: its kernel between the projections."""

    kernel = None

    def forward(self, x):
        return self.down_proj(self.kernel.apply(self.gate_proj(x), self.up_proj(x)))


def gated(kind, length, batch, activation, kernel):
    config = LlamaConfig(hidden_size=4096, intermediate_size=11008, hidden_act=activation)
    x = torch.randn(batch, length, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    layer = (Fused if kind == "liger" else LlamaMLP)(config=config).cuda().to(torch.bfloat16)
    layer.kernel = kernel

    def full():
        y = layer(x)
        y.backward(torch.randn_like(y), retain_graph=True)

    return full


def swiglu(kind, length):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return gated(kind, length, 4, "silu", LigerSiLUMulFunction)


def geglu(kind, length):
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return gated(kind, length, 8, "gelu_pytorch_tanh", LigerGELUMulFunction)


def normed(layer, x):
    dy = torch.randn_like(x)
    x.requires_grad_(True)

    def full():
        y = layer(x)
        y.backward(dy, retain_graph=True)

    return full


def layer_norm(kind, width):
    """The source makes both layers, whichever it measures; likewise below."""
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    own, plain = (nn.LayerNorm(width, eps=1e-6).cuda() for _ in range(2))
    layers = {"liger": lambda x: LigerLayerNormFunction.apply(x, own.weight, own.bias, 1e-6), "torch": plain}
    return normed(layers[kind], torch.randn(4096, width, device="cuda"))


def rms_norm(kind, width):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    own, plain = (LlamaRMSNorm(width, eps=1e-6).cuda() for _ in range(2))
    layers = {"liger": lambda x: LigerRMSNormFunction.apply(x, own.weight, 1e-6), "torch": plain}
    return normed(layers[kind], torch.randn(2048, width, dtype=torch.bfloat16, device="cuda"))


OPERATORS = {each.__name__: each for each in (cross_entropy, fused_linear_cross_entropy, swiglu, geglu, layer_norm, rms_norm)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", choices=OPERATORS)
    parser.add_argument("kind", choices=("torch", "liger"))
    parser.add_argument("--size", type=int, required=True)
    asked = parser.parse_args()
    full = OPERATORS[asked.operator](asked.kind, asked.size)
    peaks = []
    for _ in range(10):
        torch.cuda.reset_peak_memory_stats()
        full()
        peaks.append(torch.cuda.max_memory_allocated())
    counters.say(max_allocated=statistics.median(peaks))


if __name__ == "__main__":
    main()
