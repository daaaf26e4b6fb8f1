# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""BERT-large with random weights, a classifier on 512 sequences of 512 tokens, with transformers' Trainer. Attention and optimizer are chosen as the
libraries of 2022 had them: scores and softmax one after the other, one parameter after the other.

    python bert_trainer.py --batch 1 --accumulate 4 --checkpointing --fp16 --optimizer adafactor
"""

import argparse
import tempfile

import counters
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.optimization import Adafactor


class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        return {"input_ids": torch.randint(100, 30000, (512,)), "labels": torch.tensor(0)}


def optimizer_of(name, model):
    if name == "adafactor":
        return Adafactor(model.parameters(), lr=5e-5, scale_parameter=False, relative_step=False)
    return torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--optimizer", choices=("adamw", "adafactor"), default="adamw")
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    shape = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager")
    with torch.device("cuda"):
        model = BertForSequenceClassification(shape)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=asked.batch,
            gradient_accumulation_steps=asked.accumulate,
            gradient_checkpointing=asked.checkpointing,
            fp16=asked.fp16,
            max_steps=asked.steps,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        Trainer(model=model, args=arguments, train_dataset=Sequences(), optimizers=(optimizer_of(asked.optimizer, model), None)).train()
    counters.say()


if __name__ == "__main__":
    main()
