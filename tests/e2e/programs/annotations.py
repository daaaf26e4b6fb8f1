# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A small training that says of itself what it does, by the package python/gpumemshim. Prints as a JSON line what PyTorch counted at the moments that
it names."""

import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
import gpumemshim  # noqa: E402

MIB = 1 << 20


@gpumemshim.stage("set-up")
def set_up():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
    return model, torch.optim.AdamW(model.parameters())


def gradients_of_a_model_on_the_host():
    model = torch.nn.Linear(4, 3)
    model.weight.grad = torch.tensor([[1.0, -2.0, 3.0, float("nan")], [0, 0, 0, float("inf")], [0, 0, 0, 0]])
    return [list(stats[:6]) for stats in gpumemshim.gradients(model)] + [str(gpumemshim.gradients(model)[0])]


def main():
    model, optimizer = set_up()
    cache = gpumemshim.tag(torch.empty(3 * MIB, dtype=torch.uint8, device="cuda"), "kv cache")
    kept = []
    reported = {"recording": gpumemshim.recording(), "cache": cache.numel()}
    gpumemshim.snapshot("model on the GPU")
    reported["on the GPU"] = torch.cuda.memory_allocated()
    watched = gpumemshim.watch(lambda: kept.append(torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")), name="watched", tell=reported.setdefault("changes", []).append)
    with gpumemshim.stage("train"):
        for step in range(3):
            gpumemshim.step()
            loss = model(torch.randn(64, 1024, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            gpumemshim.mark("stepped", number=step, loss=loss)
        before = torch.cuda.memory_allocated()
        watched()
        reported["watched"] = torch.cuda.memory_allocated() - before
    gpumemshim.snapshot("trained")
    reported["trained"] = torch.cuda.memory_allocated()
    reported["live"] = [(tensor.bytes, tensor.holders) for tensor in gpumemshim.tensors()]
    reported["gradients"] = gradients_of_a_model_on_the_host()
    gpumemshim.pause()
    unseen = torch.empty(7 * MIB, dtype=torch.uint8, device="cuda")
    gpumemshim.resume()
    reported["unseen"] = unseen.numel()
    print(json.dumps(reported))


if __name__ == "__main__":
    main()
