# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Decode graphs for all batch sizes, in one pool."""
import torch
from torch import nn

BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)


class Decoder(nn.Module):
    def __init__(self, d=1024, depth=6, vocab=32000):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(depth)])
        self.head = nn.Linear(d, vocab)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x.repeat_interleave(16, 0)).float()


def capture_all(model):
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    for batch in BATCHES:
        static = torch.zeros(batch, 1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, pool=pool):
            out = model(static).argmax(-1)
        graphs[batch] = graph, static, out
        print(batch, "reserved", torch.cuda.memory_reserved() >> 20, "MiB")
    return graphs


with torch.device("cuda"):
    model = Decoder().half().eval()
graphs = capture_all(model.float())
for step in range(40):
    graph, static, out = graphs[BATCHES[step % len(BATCHES)]]
    graph.replay()
