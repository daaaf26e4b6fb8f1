# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Differentially private LoRA: a language model with peft's adapters, trained by Opacus with a gradient for each sample.

    python train_dp_lora.py [--model meta-llama/Llama-3.1-8B-Instruct] [--seq-len 128] [--batch-size 8]
                            [--max-physical-batch-size 1] [--lora-rank 16] [--steps 5]

Weights and data are random: of a model its shape alone is needed, from the list below or from a folder with its config.json. Nothing is downloaded.
Needs opacus, transformers and peft.
"""

import argparse
import os

import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

SHAPES = {  # as the models' own config.json files have them
    "meta-llama/Llama-3.1-8B-Instruct": dict(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072
    ),
    "meta-llama/Llama-3.2-1B": dict(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True
    ),
    "tiny": dict(vocab_size=1024, hidden_size=256, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4),
}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj"]


def make_model(arguments):
    config = AutoConfig.from_pretrained(arguments.model) if os.path.exists(arguments.model) else LlamaConfig(**SHAPES[arguments.model])
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config)
    torch.set_default_dtype(before)
    return get_peft_model(model, LoraConfig(r=arguments.lora_rank, lora_alpha=2 * arguments.lora_rank, target_modules=TARGETS, task_type="CAUSAL_LM"))


def make_loader(arguments, vocabulary):
    samples = arguments.batch_size * arguments.steps
    tokens = torch.randint(0, vocabulary, (samples, arguments.seq_len), generator=torch.Generator().manual_seed(0))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=arguments.batch_size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="meta-llama/Llama-3.1-8B-Instruct", help=f"a folder with a config.json, or one of {', '.join(SHAPES)}")
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-physical-batch-size", type=int, default=1)
    parser.add_argument("--lora-rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()

    model = make_model(arguments).train()
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-4)
    loader = make_loader(arguments, model.config.vocab_size)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False
    )
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=arguments.max_physical_batch_size, optimizer=optimizer) as batches:
        for (tokens,) in batches:
            tokens = tokens.cuda()
            logits = model(input_ids=tokens).logits
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
