# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs a recipe of torchtune as `tune run RECIPE --config CONFIG KEY=VALUE ...` does. What it would read from files is replaced: weights, tokenizer and text.
Every sample has --tokens tokens; with --shortest the samples' lengths are spread evenly from there to --tokens, in random order.

    python torchtune_recipe.py lora_finetune_single_device llama2/7B_lora_single_device --tokens 512 model.lora_rank=64

Peaks are those of training, which the recipe logs at every step, or with --initial of making the model.
"""

import argparse
import importlib
import importlib.util
import pathlib
import random
import sys
import tempfile
import unittest.mock

import counters
import torch

# What torchtune imports for text and downloads, neither of which is made here.
UNUSED = ("datasets", "datasets.distributed", "tiktoken", "tiktoken.load", "sentencepiece", "blobfile", "kagglehub", "kagglehub.auth", "kagglehub.exceptions", "kagglehub.handle")
for unused in UNUSED:
    sys.modules.setdefault(unused, unittest.mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(unused, None)))
PEAKS = {"active": "max_active", "allocated": "max_allocated", "reserved": "max_reserved"}


class Weights:
    """In place of a checkpoint: zeros for every parameter of the model but the adapters', with one element of memory each."""

    def __init__(self, model, **_):
        self.model = dict(model)

    def load_checkpoint(self, **_):
        path = self.model.pop("_component_").replace(".qlora_", ".lora_").replace(".qdora_", ".lora_")
        module, _, name = path.rpartition(".")
        self.model.pop("quantize_base", None)
        with torch.device("meta"):
            model = getattr(importlib.import_module(module), name)(**self.model)
        shapes = {name: each.shape for name, each in model.state_dict().items() if "lora_" not in name and "magnitude" not in name}
        return {"model": {name: torch.zeros(1, dtype=torch.bfloat16).expand(shape) for name, shape in shapes.items()}}

    def save_checkpoint(self, *_, **__):
        pass


def load_state_dict(self, state_dict, **_):
    """In place of Module's: copies into parameters allocate nothing on the GPU and would fill this machine's memory. Those that quantize do allocate."""
    own = {name.replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", ""): each for name, each in self.named_parameters()}
    with torch.no_grad():
        for name, value in state_dict.items():
            if type(own[name].data) is not torch.Tensor:
                own[name].copy_(value)
    return torch.nn.modules.module._IncompatibleKeys([name for name in own if name not in state_dict], [])


class Tokenizer:
    def __init__(self, **_):
        self.pad_id, self.max_seq_len = 0, None


class Tokens(torch.utils.data.Dataset):
    """`pairs`: samples of the first versions were pairs of lists."""

    def __init__(self, *_, length, shortest=None, pairs=False, **__):
        self.lengths = range(shortest or length, length + 1)
        self.pairs = pairs

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        length = self.lengths[random.Random(index).randrange(len(self.lengths))]
        tokens = [1] * length
        return (tokens, list(tokens)) if self.pairs else {"tokens": tokens, "labels": list(tokens), "mask": [True] * length}


def packed(*_, length, **__):
    from torchtune.datasets import PackedDataset

    return PackedDataset(Tokens(length=length // 8), max_seq_len=length, max_packs=16)


class Silent:
    """In place of a metric logger."""

    def __init__(self, **_):
        pass

    def log_config(self, *_, **__):
        pass

    log = log_dict = close = log_config


def keeping_peaks():
    """The recipe resets PyTorch's peaks whenever it logs them; here they are kept."""
    peaks, reset = {}, torch.cuda.reset_peak_memory_stats

    def note(*arguments):
        statistics = torch.cuda.memory_stats()
        for name, counter in PEAKS.items():
            peaks[counter] = max(peaks.get(counter, 0), statistics[f"{name}_bytes.all.peak"])
        reset(*arguments)

    reset()
    torch.cuda.reset_peak_memory_stats = note
    return peaks


def configuration(package, asked):
    """As tune merges them: the file, then KEY=VALUE."""
    from omegaconf import OmegaConf

    here = pathlib.Path(__file__).stem
    config = OmegaConf.merge(OmegaConf.load(package / "configs" / f"{asked.config}.yaml"), OmegaConf.from_dotlist(asked.changes))
    with tempfile.TemporaryDirectory() as folder:
        config.output_dir = folder
    config.checkpointer = {"_component_": f"{here}.Weights", "model": config.model, "model_type": config.checkpointer.model_type}
    config.tokenizer = {"_component_": f"{here}.Tokenizer"}
    if "packed" in config.dataset:
        kind = "packed" if config.dataset.packed else "Tokens"
        config.dataset = {"_component_": f"{here}.{kind}", "length": asked.tokens, "shortest": asked.shortest, "packed": config.dataset.packed}
    else:
        config.dataset = {"_component_": f"{here}.Tokens", "length": asked.tokens, "shortest": asked.shortest, "pairs": asked.pairs}
    config.metric_logger = {"_component_": f"{here}.Silent"}
    return OmegaConf.merge(config, {"epochs": 1, "max_steps_per_epoch": asked.steps, "log_every_n_steps": 1, "log_peak_memory_stats": True})


def recipe_of(package, name):
    """The recipe's class; the package that holds the recipes refuses to be imported."""
    spec = importlib.util.spec_from_file_location(name, package / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(each for key, each in vars(module).items() if "Recipe" in key and each.__module__ == name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("config")
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--shortest", type=int)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pairs", action="store_true", help="samples as the first versions had them")
    parser.add_argument("--initial", action="store_true")
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_intermixed_args()
    import torchtune

    package = pathlib.Path(torchtune.__file__).parents[1] / "recipes"
    torch.nn.Module.load_state_dict = load_state_dict
    config = configuration(package, asked)
    recipe = recipe_of(package, asked.recipe)(cfg=config)
    recipe.setup(cfg=config)
    if asked.initial:
        return counters.say()
    recipe.save_checkpoint = lambda *_, **__: None  # would copy the weights to the host
    peaks = keeping_peaks()
    recipe.train()
    torch.cuda.reset_peak_memory_stats()
    return counters.say(**peaks)


if __name__ == "__main__":
    main()
