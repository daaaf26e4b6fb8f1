# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""LoRA fine-tuning of a LitGPT model with random weights, in bf16, as `litgpt finetune_lora` trains: every batch as long as the longest.

    python litgpt_lora.py --model Llama-2-7b-hf --rank 32 --batch 2 --layers query value
"""

import argparse

import counters
import lightning
import torch
from litgpt.lora import GPT, Config, mark_only_lora_as_trainable
from litgpt.utils import chunked_cross_entropy

LAYERS = ("query", "key", "value", "projection", "mlp", "head")


def step(fabric, model, optimizer, batch, length, accumulate):
    for _ in range(accumulate):
        tokens = torch.randint(0, 1000, (batch, length)).cuda()
        targets = torch.randint(0, 1000, (batch, length)).cuda()
        chunks = model(tokens, lm_head_chunk_size=128)
        chunks[-1] = chunks[-1][..., :-1, :]
        fabric.backward(chunked_cross_entropy(chunks, targets[..., 1:]) / accumulate)
    optimizer.step()
    optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    asked = parser.parse_args()
    fabric = lightning.Fabric(accelerator="cuda", devices=1, precision="bf16-true")
    adapters = {f"lora_{layer}": layer in asked.layers for layer in LAYERS}
    with fabric.init_module(empty_init=False):
        model = GPT(Config.from_name(asked.model, lora_r=asked.rank, lora_alpha=16, lora_dropout=0.05, **adapters))
    mark_only_lora_as_trainable(model)
    model.max_seq_length = asked.length
    model = fabric.setup_module(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0, betas=(0.9, 0.95)))
    for _ in range(2):
        step(fabric, model, optimizer, asked.batch, asked.length, asked.accumulate)
    counters.say()


if __name__ == "__main__":
    main()
