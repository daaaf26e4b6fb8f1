# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Fine-tuning of a vision transformer of timm on random images with an optimizer of few bits or on the host, as torchao's
benchmarks/benchmark_low_bit_adam.py trains.

    python low_bit_adam.py vit_huge_patch14_224 --amp --compile --optimizer bnb-8 --batch 8
    python low_bit_adam.py vit_giant_patch14_dinov2 --size 224 --checkpointing --optimizer offload --batch 32
"""

import argparse
import functools

import counters
import timm
import torch


def optimizer_of(name):
    if name == "adamw":
        return functools.partial(torch.optim.AdamW, fused=True)
    if name == "bnb-8":
        import bitsandbytes

        return bitsandbytes.optim.AdamW8bit
    from torchao.prototype import low_bit_optim

    if name.startswith("ao-"):
        return {"ao-8": low_bit_optim.AdamW8bit, "ao-4": low_bit_optim.AdamW4bit}[name]
    host = functools.partial(torch.optim.AdamW, fused=True)
    return functools.partial(low_bit_optim.CPUOffloadOptimizer, optimizer_class=host, offload_gradients=name == "offload-gradients")


def model_of(asked):
    torch.linspace = functools.partial(torch.linspace, device="cpu")  # timm reads its values
    with torch.device("meta"):
        model = timm.create_model(asked.model, num_classes=45, **({"img_size": asked.size} if asked.size else {}))
    model.to_empty(device="cpu")
    if asked.checkpointing:
        model.set_grad_checkpointing()
    if not asked.amp:
        model.bfloat16()
    model.cuda()
    if asked.compile:
        model.compile(fullgraph=True)
    return model.train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--size", type=int, help="of the images, where the model's own is another")
    parser.add_argument("--amp", action="store_true", help="autocast to bf16; without it everything is bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--optimizer", choices=("adamw", "bnb-8", "ao-8", "ao-4", "offload", "offload-gradients"), required=True)
    parser.add_argument("--batch", type=int, required=True)
    asked = parser.parse_args()
    model = model_of(asked)
    optimizer = optimizer_of(asked.optimizer)(model.parameters(), lr=1e-4, weight_decay=0)
    for _ in range(3):
        images, labels = torch.rand(asked.batch, 3, 224, 224), torch.randint(45, (asked.batch,))
        if not asked.amp:
            images = images.bfloat16()
        with torch.autocast("cuda", torch.bfloat16, enabled=asked.amp):
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    counters.say()


if __name__ == "__main__":
    main()
