# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What people run with transformers and values decide: text that is generated, and a mixture of experts that is trained. Random weights.

    python planned_libraries.py generate|experts|cache FILE
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

SMALL = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def generate():
    model = LlamaForCausalLM(LlamaConfig(**SMALL)).cuda().eval()
    tokens = model.generate(torch.randint(0, 1000, (2, 16), device="cuda"), max_new_tokens=20)
    print(tuple(tokens.shape))


def cache():
    """2,000 new tokens for each of 64 sequences: keys and values of 2 layers, 4 heads of 64 floats."""
    wide = {**SMALL, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 4096}
    model = LlamaForCausalLM(LlamaConfig(**wide)).cuda().eval()
    generated = model.generate(torch.randint(0, 1000, (64, 16), device="cuda"), max_new_tokens=2000, return_dict_in_generate=True)
    kept = [tensor for layer in generated.past_key_values.layers for tensor in (layer.keys, layer.values)]
    with open(sys.argv[2], "a", encoding="utf-8") as file:  # a line for each run
        file.write(f"{sum(tensor.nbytes for tensor in kept)}\n")


def experts():
    model = MixtralForCausalLM(MixtralConfig(**SMALL, num_local_experts=4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(10):
        tokens = torch.randint(0, 1000, (2, 64), device="cuda")
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


{"generate": generate, "cache": cache, "experts": experts}[sys.argv[1]]()
