# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Changes of changes.py for programs that make no optimizer's step, and for convolutional nets: what a person would switch on in diffusers or PyTorch.

What diffusers has is asked of its own objects (enable_slicing, enable_tiling, set_attention_slice, enable_model_cpu_offload), where a model is put on a device or set to eval.
"""

import importlib.machinery
import sys

import torch
from gpumem_change import Change, each_instance, halve

PIPELINES = "diffusers.pipelines.pipeline_utils"


def when_imported(name, function):
    """Calls function(module) now, or right after the module is imported."""
    if name in sys.modules:
        function(sys.modules[name])
        return

    class Finder:
        @classmethod
        def find_spec(cls, wanted, path=None, target=None):
            spec = importlib.machinery.PathFinder.find_spec(wanted, path, target) if wanted == name else None
            if spec is None or spec.loader is None:
                return None
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                function(module)

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Finder)


class OfModels(Change):
    """change_model(model) for each outermost module that is put on a device, or set to eval; once each."""

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.seen, self.inside = set(), False
        for name in ("_apply", "eval"):
            self.watch(name)

    def watch(self, name):
        real, change = getattr(torch.nn.Module, name), self

        def method(self, *arguments, **options):
            change.look_at(self)
            return real(self, *arguments, **options)

        setattr(torch.nn.Module, name, method)

    def look_at(self, model):
        if self.inside or id(model) in self.seen:
            return
        self.inside = True
        try:
            self.seen.update(id(each) for each in model.modules())
            self.change_model(model)
        finally:
            self.inside = False


class VaeSlicing(OfModels):
    name, nothing = "vae_slicing", "no model with enable_slicing() was met (diffusers' autoencoders have it)"
    method, flag = "enable_slicing", "use_slicing"

    def change_model(self, model):
        method = getattr(model, self.method, None)
        if not callable(method):
            return
        if getattr(model, self.flag, False):
            self.refuse(model, "the program has it already")
            return
        method()
        self.apply(model)


class VaeTiling(VaeSlicing):
    name, nothing = "vae_tiling", "no model with enable_tiling() was met (diffusers' autoencoders have it)"
    method, flag = "enable_tiling", "use_tiling"
    other_results = "tiles are decoded by themselves and blended"


class AttentionSlicing(OfModels):
    name, nothing = "attention_slicing", "no model with set_attention_slice() was met (diffusers' U-Nets have it)"

    def change_model(self, model):
        if callable(getattr(model, "set_attention_slice", None)):
            model.set_attention_slice("auto")
            self.apply(model)


class ChannelsLast(Change):
    """The weights of 2-D convolutions lie channels-last before a module that holds some is called first; activations follow."""

    name, nothing = "channels_last", "no module with 2-D convolutions on a GPU was called"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        self.known = set()
        torch.nn.modules.module.register_module_forward_pre_hook(self.before)

    def before(self, module, _):
        if id(module) in self.known or torch.compiler.is_compiling():
            return
        inside = list(module.modules())
        self.known.update(id(each) for each in inside)
        filters = [each.weight for each in inside if isinstance(each, torch.nn.Conv2d) and each.weight.is_cuda]
        if not filters:
            return
        if all(weight.is_contiguous(memory_format=torch.channels_last) for weight in filters):
            self.refuse(module, "the program has it already")
            return
        module.to(memory_format=torch.channels_last)
        self.apply(module)


class NoGrad(Change):
    """Nothing is kept for a backward pass. A program that makes one fails, and so gets no number."""

    name, nothing = "no_grad", "the program computes without gradients already"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        torch.nn.modules.module.register_module_forward_pre_hook(self.before)

    def before(self, module, _):
        if torch.is_grad_enabled() and not torch.is_inference_mode_enabled() and any(each.requires_grad for each in module.parameters()):
            torch.set_grad_enabled(False)
            self.apply(type(self))


class ModelOffload(Change):
    """diffusers' pipelines keep on the GPU only the part that computes."""

    name, nothing = "model_offload", "no pipeline of diffusers was put on a GPU"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        when_imported(PIPELINES, self.change_pipelines)

    def change_pipelines(self, module):
        pipeline, change = module.DiffusionPipeline, self
        real = pipeline.to

        def to(self, *arguments, **options):
            device = next((each for each in (*arguments, *options.values()) if isinstance(each, (str, torch.device)) and str(each).startswith("cuda")), None)
            if device is None:
                return real(self, *arguments, **options)
            dtype = next((each for each in (*arguments, *options.values()) if isinstance(each, torch.dtype)), None)
            if dtype is not None:
                real(self, dtype)
            self.enable_model_cpu_offload(device=device)
            change.apply(self)
            return self

        pipeline.to = to


class HalfBatch(Change):
    name, nothing = "half_batch", "the batch size is not an argument of the command, and of no DataLoader"

    def __init__(self, run, argument):
        super().__init__(run, argument)
        if argument == "flag":
            self.apply(type(self))
        else:
            each_instance(torch.utils.data.DataLoader, lambda loader: halve(loader) and self.apply(loader))
