# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Small trainings with libraries that nobody here wrote, and at each mark what their own tensors say of the memory, as a JSON line.

    python libraries.py lora | opacus | hugging_face | lightning [--saved]
    torchrun --nproc-per-node 2 libraries.py fsdp2
"""

import argparse
import json
import os
import tempfile

import torch
from torch import nn

import tensor_truth

STEPS = 6


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 512, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(max_position_embeddings=128, use_cache=False, **sizes))


def with_adapters(model):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def train_plainly(truth, model, optimizer, batch_of, loss_of):
    for step in range(1, STEPS + 1):
        batch = batch_of()
        with truth.hooks():
            loss = loss_of(model, batch)
        truth.mark(f"{step} forward", [model], [optimizer], batch)
        loss.backward()
        del loss
        truth.mark(f"{step} backward", [model], [optimizer], batch)
        optimizer.step()
        truth.mark(f"{step} stepped", [model], [optimizer], batch)
        optimizer.zero_grad()


def lora(truth):
    model = with_adapters(llama().cuda())
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])

    def batch():
        return [torch.randint(512, (4, 64)).cuda()]

    train_plainly(truth, model, optimizer, batch, lambda model, batch: model(input_ids=batch[0], labels=batch[0]).loss)


def opacus(truth):
    from opacus import PrivacyEngine

    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 32), nn.ReLU(), nn.Linear(32, 10)).cuda()
    data = torch.utils.data.TensorDataset(torch.randn(16 * STEPS, 3, 8, 8), torch.zeros(16 * STEPS, dtype=torch.long))
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    private = PrivacyEngine(accountant="rdp").make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False
    )
    model, optimizer, loader = private
    batches = iter(loader)

    def batch():
        return [part.cuda() for part in next(batches)]

    train_plainly(truth, model, optimizer, batch, lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]))


def hugging_face(truth):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Marks(TrainerCallback):
        """Where the trainer lets others look: before and after the optimizer."""

        def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **_):
            truth.mark(f"{state.global_step + 1} backward", [model], [plain(optimizer)])

        def on_optimizer_step(self, args, state, control, model=None, optimizer=None, **_):
            truth.mark(f"{state.global_step + 1} stepped", [model], [plain(optimizer)])

    def plain(optimizer):
        return getattr(optimizer, "optimizer", optimizer)

    data = [{"input_ids": torch.randint(512, (64,)), "labels": torch.randint(512, (64,))} for _ in range(4 * 2 * STEPS // 2)]
    with tempfile.TemporaryDirectory() as folder:
        options = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "gradient_accumulation_steps": 2}
        arguments = TrainingArguments(folder, num_train_epochs=2, per_device_train_batch_size=4, optim="adamw_torch", **options)
        Trainer(with_adapters(llama()), arguments, train_dataset=data, callbacks=[Marks()]).train()


def lightning(truth):
    from lightning import pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.GELU())
            self.head = nn.Linear(256, 100)

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.head(self.body(batch[0])), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

        def on_before_optimizer_step(self, optimizer):
            truth.mark(f"{self.global_step + 1} backward", [self], [optimizer])

        def on_train_batch_end(self, *_):
            truth.mark(f"{self.global_step} stepped", [self], [self.optimizers().optimizer])

    data = torch.utils.data.TensorDataset(torch.randn(24 * STEPS // 2, 256), torch.zeros(24 * STEPS // 2, dtype=torch.long))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(max_epochs=2, accelerator="gpu", devices=1, default_root_dir=folder, **quiet)
        trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=24))


def fsdp2(truth):
    from torch.distributed.fsdp import fully_shard

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)) for _ in range(3))).cuda()
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    train_plainly(truth, model, optimizer, lambda: [torch.randn(32, 256).cuda()], lambda model, batch: model(batch[0]).square().mean())
    torch.distributed.destroy_process_group()


CASES = {case.__name__: case for case in (lora, opacus, hugging_face, lightning, fsdp2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--saved", action="store_true")
    parser.add_argument("--output", help="the line goes there, .RANK behind it, and not to standard output")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    truth = tensor_truth.Truth(arguments.saved)
    CASES[arguments.case](truth)
    line = json.dumps(truth.result())
    if arguments.output:
        with open(f"{arguments.output}.{os.environ.get('RANK', 0)}", "w", encoding="ascii") as file:
            file.write(line)
    else:
        print(line)


if __name__ == "__main__":
    main()
