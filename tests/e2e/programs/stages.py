# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A run with every stage: model load, data, adapters, optimizer, privacy engine, training under a trainer with accumulated gradients, evaluation,
checkpoint. The libraries are stubs with the names of files and functions of the real ones, which is all that they are known by. Prints as a JSON
line PyTorch's allocated bytes at the borders of the stages."""

import importlib
import json
import pathlib
import sys
import tempfile

import torch

LIBRARIES = {
    "transformers/modeling_utils.py": """
import torch
def from_pretrained(width):
    weights = {name: torch.zeros(shape, device="cuda") for name, shape in (("0.weight", (width, width)), ("0.bias", (width,)))}
    model = torch.nn.Sequential(torch.nn.Linear(width, width)).cuda()
    model.load_state_dict(weights)
    return model
""",
    "peft/mapping.py": """
import torch
def get_peft_model(model):
    return torch.nn.Sequential(*model, torch.nn.Linear(model[0].out_features, 256, device="cuda"))
""",
    "opacus/privacy_engine.py": """
import torch
class PrivacyEngine:
    def make_private(self):
        self.noise = torch.zeros(1 << 18, device="cuda")
""",
    "transformers/trainer.py": """
class State:
    global_step, epoch = 0, 0.0
class Trainer:
    def __init__(self):
        self.state = State()
    def train(self, epochs, steps, one_step, evaluate):
        for epoch in range(epochs):
            for step in range(steps):
                one_step()
                self.state.global_step += 1
                self.state.epoch = epoch + (step + 1) / steps
            evaluate()
""",
}


def make_libraries(folder):
    for name, source in LIBRARIES.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(exist_ok=True)
        path.parent.joinpath("__init__.py").touch()
        path.write_text(source)
    sys.path.insert(0, folder)
    return [importlib.import_module(name) for name in ("transformers.modeling_utils", "peft.mapping", "opacus.privacy_engine", "transformers.trainer")]


def load_dataset():
    return torch.ones(64, 512, device="cuda")


class FlatAdamW(torch.optim.AdamW):
    """Takes memory while it is set up, as optimizers that keep a flat copy do."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.flat = torch.zeros(1 << 16, device="cuda")


def configure_optimizers(model):
    return FlatAdamW(model.parameters())


def evaluate(model, data):
    with torch.no_grad():
        return float(model(data).mean())


def main():
    borders = []

    def border(name):
        borders.append((name, torch.cuda.memory_allocated()))

    with tempfile.TemporaryDirectory() as folder:
        modeling, mapping, privacy, trainers = make_libraries(folder)
        model = modeling.from_pretrained(512)
        border("model_load")
        data = load_dataset()
        border("data_preparation")
        model = mapping.get_peft_model(model)
        border("lora_setup")
        engine = privacy.PrivacyEngine()
        engine.make_private()
        border("privacy_setup")
        optimizer = configure_optimizers(model)
        border("optimizer_setup")

        def one_step():
            for _ in range(2):
                model(data).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        trainers.Trainer().train(2, 3, one_step, lambda: evaluate(model, data))
        checkpoint = pathlib.Path(folder) / "checkpoint.pt"
        torch.save(model.state_dict(), checkpoint)
        kept = torch.load(checkpoint, map_location="cuda", weights_only=True)
        border("checkpoint_load")
    print(json.dumps({"borders": borders, "checkpoint": sum(tensor.nbytes for tensor in kept.values())}))


if __name__ == "__main__":
    main()
