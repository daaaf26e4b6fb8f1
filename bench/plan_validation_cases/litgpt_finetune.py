# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Fine-tuning of a LitGPT model with random weights, in bf16, as `litgpt finetune_lora` and `finetune_full` train: every batch as long as the longest,
or with --later only the first, with which those programs begin.

    python litgpt_finetune.py --model Llama-2-7b-hf --batch 2 --rank 32 --layers query value
    python litgpt_finetune.py --model tiny-llama-1.1b --batch 4 --accumulate 8
"""

import argparse

import counters
import lightning
import litgpt.lora
import litgpt.model
import torch
from litgpt.utils import chunked_cross_entropy

LAYERS = ("query", "key", "value", "projection", "mlp", "head")


def train(fabric, model, optimizer, asked):
    """The scores live until the next ones are there, as in LitGPT's loop."""
    for number in range(1, 2 * asked.accumulate + 1):
        length = asked.later if asked.later and number > 1 else asked.length
        tokens, targets = (torch.randint(0, 1000, (asked.batch, length)).cuda() for _ in range(2))
        if asked.rank:
            scores = model(tokens, lm_head_chunk_size=128)
            scores[-1] = scores[-1][..., :-1, :]
            loss = chunked_cross_entropy(scores, targets[..., 1:])
        else:
            scores = model(tokens)
            loss = chunked_cross_entropy(scores[..., :-1, :], targets[..., 1:])
        fabric.backward(loss / asked.accumulate)
        if number % asked.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


def model_of(fabric, asked):
    with fabric.init_module(empty_init=False):
        if not asked.rank:
            return litgpt.model.GPT(litgpt.model.Config.from_name(asked.model))
        adapters = {f"lora_{layer}": layer in asked.layers for layer in LAYERS}
        shape = litgpt.lora.Config.from_name(asked.model, lora_r=asked.rank, lora_alpha=16, lora_dropout=0.05, **adapters)
        model = litgpt.lora.GPT(shape)
    litgpt.lora.mark_only_lora_as_trainable(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rank", type=int, help="of LoRA; without it all parameters are trained")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=())
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--later", type=int, help="tokens in a batch after the first")
    asked = parser.parse_args()
    fabric = lightning.Fabric(accelerator="cuda", devices=1, precision="bf16-true")
    model = model_of(fabric, asked)
    model.max_seq_length = asked.length
    model = fabric.setup_module(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0, betas=(0.9, 0.95)))
    train(fabric, model, optimizer, asked)
    counters.say()


if __name__ == "__main__":
    main()
