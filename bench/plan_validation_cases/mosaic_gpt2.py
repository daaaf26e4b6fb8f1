# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""GPT-2 of transformers trained for five steps in fp32 on random tokens, as PyTorch's tutorial on Mosaic does. Its peak is that of what was allocated since
the first step began: Mosaic reads the history of allocations, which begins there, and does not count the parameters.

    python mosaic_gpt2.py --checkpointing
"""

import argparse

import counters
import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpointing", action="store_true")
    asked = parser.parse_args()
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    if asked.checkpointing:
        model.gradient_checkpointing_enable()
    model = model.to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        tokens = torch.randint(0, 50257, (4, 512))
        batch = {"input_ids": tokens.cuda(), "labels": tokens.clone().cuda()}
        optimizer.zero_grad()
        outputs = model(**batch)  # whose scores live until the next ones are there, as in the tutorial
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        loss.item()
    counters.say(max_allocated=torch.cuda.max_memory_allocated() - before)


if __name__ == "__main__":
    main()
