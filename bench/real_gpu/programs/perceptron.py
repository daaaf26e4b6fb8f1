# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A perceptron of 10, 20 and 1 units trained for 17 steps: the memory history of a model that is smaller than any segment."""

import torch
from torch import nn


def main():
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)).cuda()
    distance = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(64, 10).cuda(), torch.randn(64, 1).cuda()
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    for _ in range(17):
        result = model(inputs)
        loss = distance(result, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
    torch.cuda.memory._dump_snapshot("memory_snapshot.pickle")


if __name__ == "__main__":
    main()
