# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs Python blocks of other tools' documents one after the other, as they are printed, with what the documents leave to the reader: a model, data, a training.

    reference_calls.py BLOCKS.json ANSWERS.json     [[name, code, code behind it or ""], ...] -> {name: {"printed", "error"}}

The names of a document stay from block to block. Models are small, and on the CPU where their values count: simulated CUDA computes none.
"""

import contextlib
import io
import json
import sys
import traceback
import types

import torch

MB = 1 << 20


class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_proj = torch.nn.Linear(width, width, bias=False)


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width)


class Inner(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(width)])
        self.lm_head = torch.nn.Linear(width, 8, bias=False)


class Model(torch.nn.Module):
    """model(batch) is the loss, and model(input_ids, labels) too."""

    def __init__(self, width=64):
        super().__init__()
        self.model = Inner(width)
        self.model.lm_head.requires_grad_(False)

    def forward(self, input_ids, labels=None):
        hidden = torch.nn.functional.one_hot(input_ids % 64, self.model.lm_head.in_features).float()
        return self.model.layers[0].attention.q_proj(hidden).square().mean()


def batches():
    return [torch.randint(0, 64, (4, 16), device="cuda") for _ in range(2)]


def create_model(config=None):
    return Model().cuda()


def train(model=None, loader=None, *_):
    model = model or create_model()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
    for batch in loader or batches():
        model(batch.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def memory_check():
    model = create_model()
    scope = {"torch": torch, "model": model, "dataloader": batches(), "num_epochs": 2, "r": 8, "hidden_size": 256, "threshold": 0, "max_size": 10}
    return {**scope, "optimizer": torch.optim.AdamW(model.parameters()), "input_tensor": batches()[0], "output_tensor": torch.ones(4, device="cuda")}


def lora_of_peft():
    """Where peft is not installed, as it is not in everyday tests: the two names of it that are used."""
    try:
        import peft  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("peft")
        stand_in.LoraConfig = types.SimpleNamespace

        def get_peft_model(model, config):
            model.lora_A = torch.nn.Linear(64, config.r, bias=False)
            return model

        stand_in.get_peft_model = get_peft_model
        sys.modules["peft"] = stand_in


def debug_tools():
    lora_of_peft()
    import gpumemshim.compat.memoryDebugger
    import gpumemshim.compat.quickMemoryDebug as quick

    kept = []
    scope = {name: getattr(quick, name) for name in ("memory_snapshot", "compare_snapshots", "monitor_function", "check_memory_status", "cleanup_memory", "generate_report", "analyze_model")}
    scope.update(create_memory_debugger=gpumemshim.compat.memoryDebugger.create_memory_debugger, your_model=Model(), your_training_function=train, args=(), model=create_model(), num_epochs=2)
    scope.update(create_your_model=Model, create_model=create_model, create_dataloader=batches, dataloader=batches(), train_model=train, train_epoch=train)
    scope["problematic_function"] = lambda: kept.append(torch.empty(8 * MB, dtype=torch.uint8, device="cuda"))
    scope["config"] = {"model": Model, "epochs": 1}
    scope["load_config"] = lambda: {"model": Model}
    return scope


def tiny_torch():
    return {"torch": torch}


# Of the document S3 no block is Python, and those of S5 run in another program.
SCOPES = {"S1": memory_check, "S2": debug_tools, "S4": tiny_torch}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        blocks = json.load(file)
    scopes, answers = {}, {}
    for name, code, behind in blocks:
        scope = scopes.setdefault(name[:2], SCOPES[name[:2]]())
        printed, error = io.StringIO(), ""
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(code, name, "exec"), scope)
                exec(compile(behind, f"{name} behind", "exec"), scope)
            except Exception:
                error = traceback.format_exc()
        answers[name] = {"printed": printed.getvalue(), "error": error}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answers, file, ensure_ascii=False)


if __name__ == "__main__":
    main()
