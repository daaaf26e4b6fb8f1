# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""LoRA on a model of Llama-3-8B's shape, with transformers' Trainer and peft. Weights and data are random: nothing is downloaded.

    python train_llama_lora.py [--batch-size 2] [--seq-len 1024] [--rank 16] [--steps 10] [--gradient-checkpointing]

Needs transformers, peft and accelerate, and a GPU with about 30 GiB; a small one does for --layers 2.
"""

import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, vocabulary, length, count):
        self.vocabulary, self.length, self.count = vocabulary, length, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tokens = torch.randint(0, self.vocabulary, (self.length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def make_model(arguments):
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=arguments.layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rope_theta=500000.0,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(before)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return get_peft_model(model, LoraConfig(r=arguments.rank, lora_alpha=2 * arguments.rank, target_modules=targets, task_type="CAUSAL_LM"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--seq-len", type=int, default=1024)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--gradient-checkpointing", action="store_true")
    arguments = parser.parse_args()

    model = make_model(arguments)
    model.print_trainable_parameters()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=arguments.batch_size,
            max_steps=arguments.steps,
            bf16=True,
            gradient_checkpointing=arguments.gradient_checkpointing,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        data = RandomTokens(128256, arguments.seq_len, arguments.batch_size * arguments.steps)
        Trainer(model=model, args=settings, train_dataset=data).train()


if __name__ == "__main__":
    main()
