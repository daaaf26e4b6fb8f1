# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Changes that save memory, made to a planned program from outside: `gpumemshim plan` measures what each saves by running the program with it.

    GPUMEMSHIM_PLAN_WHAT_IF="checkpointing:12,chunked_loss"    changes of one run; what follows a colon is the change's argument

    foreach             optimizers take the plain loop: no temporaries of the size of all parameters
    fused               optimizers take PyTorch's fused kernels
    checkpointing[:K]   the first K blocks of the model (all) are computed again in the backward pass
    chunked_loss        the last linear layer and cross_entropy are computed piece by piece (chunked_loss.py, beside this file)
    accumulate[:flag]   half the batch, a step after every second one; with ":flag" the command line has the half already
    offload             tensors that the backward pass needs wait in host memory
    bf16_states         Adam's states are bfloat16
    8bit_states         Adam's states are of 8 bits, as bitsandbytes lays them out: the sizes are real, nothing is quantized
    no_grad             nothing is kept for a backward pass (these seven: inference_changes.py)
    channels_last       2-D convolutions take and give channels-last tensors
    half_batch[:flag]   half the batch; as for accumulate
    attention_slicing, vae_slicing, vae_tiling, model_offload    what diffusers' methods of these names do
    look                changes nothing, says which argument is the batch size, and which of the above have something to change

Each reports to PROCESS.json, under "changes", to how many places of how many it was applied, and why not to the others. What is done here is what a person would write
into the program (each in a file of its own, as WHERE has it); tests/e2e/plan_changes_test.py holds both against each other.

Failure: a change that does not apply is reported, and changes nothing. An error in a change is the program's: that run fails, and no number comes of it.
"""

import os
import sys
import types

FOLDER = os.path.dirname(__file__)
BATCH_NAMES = ("per_device_train_batch_size", "train_batch_size", "batch_size", "micro_batch_size", "batch", "bs")  # as FindBatchFlag has them
WHERE = {  # change -> file beside this one, class in it
    "foreach": ("optimizer_changes", "WithoutForeach"),
    "fused": ("optimizer_changes", "Fused"),
    "bf16_states": ("optimizer_changes", "Bf16States"),
    "8bit_states": ("optimizer_changes", "EightBitStates"),
    "checkpointing": ("checkpointing", "Checkpointing"),
    "chunked_loss": ("chunked_loss", "ChunkedLoss"),
    "accumulate": ("accumulation", "Accumulation"),
    "offload": ("offload", "Offload"),
    "no_grad": ("inference_changes", "NoGrad"),
    "channels_last": ("inference_changes", "ChannelsLast"),
    "half_batch": ("inference_changes", "HalfBatch"),
    "attention_slicing": ("inference_changes", "AttentionSlicing"),
    "vae_slicing": ("inference_changes", "VaeSlicing"),
    "vae_tiling": ("inference_changes", "VaeTiling"),
    "model_offload": ("inference_changes", "ModelOffload"),
}


def part(name):
    """A file beside this one, as the module gpumem_NAME: a name that no program has."""
    own = f"gpumem_{name}"
    if own not in sys.modules:
        path = os.path.join(FOLDER, f"{name}.py")
        sys.modules[own] = module = types.ModuleType(own)
        module.__file__ = path
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), vars(module))
    return sys.modules[own]


class Impossible:
    """A change that could not even begin."""

    def __init__(self, name, why):
        self.what = {"name": name, "applied": 0, "of": 0, "why": why}

    def report(self):
        return self.what


class Look:
    """Changes nothing. It looks where the run begins, and once more at its end: by then argparse's objects are often forgotten."""

    def __init__(self):
        self.batch = self.find()
        self.met = set()
        torch = sys.modules.get("torch")
        if torch is not None:
            part("change").each_instance(torch.nn.Conv2d, lambda _: self.met.add("conv2d"))

    def report(self):
        if "diffusers" in sys.modules:
            self.met.add("diffusers")
        return {"name": "look", "applied": 0, "of": 0, "why": "", "batch": self.batch or self.find(), "met": sorted(self.met)}

    def find(self):
        """[flag, value] of the batch size where argparse read the command line; None: it did not, or is forgotten by now."""
        argparse = sys.modules.get("argparse")
        if argparse is None:
            return None
        alive, found = part("change").alive, {}
        for parser in alive(argparse.ArgumentParser):
            for action in parser._actions:
                if action.dest in BATCH_NAMES and action.option_strings:
                    found[action.dest] = max(action.option_strings, key=len)
        for name in BATCH_NAMES:
            values = {value for each in alive(argparse.Namespace) if isinstance(value := vars(each).get(name), int)}
            if name in found and len(values) == 1 and max(values) > 1:
                return [found[name], max(values)]
        return None


def made(run, name, argument):
    if name == "look":
        return Look()
    part("change")
    file, kind = WHERE[name]
    return getattr(part(file), kind)(run, argument)


def begin(run, asked):
    for text in asked.split(","):
        name, _, argument = text.partition(":")
        try:
            run.changes.append(made(run, name, argument))
        except Exception as error:  # an older PyTorch may lack what it needs
            run.changes.append(Impossible(name, f"{type(error).__name__}: {error}"[:200]))
