# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""EnhancedMemoryProfiler: snapshots by name, and what parameters, gradients, optimizer state and the parts of differentially private training hold.

    profiler = EnhancedMemoryProfiler(model)
    profiler.register_component_hooks()
    profiler.take_snapshot("3_after_forward")
    print_memory_breakdown(profiler.get_detailed_breakdown(optimizer))
    profiler.save_results("detailed_memory_results.json", optimizer)

As a command it scans configurations (gpu_memory_profiler.py). Sizes are in MB of 1,048,576 bytes. `gpumemshim at NAME` says what else was alive at a snapshot.
"""

import collections
import json
import time

from gpumemshim._annotations import snapshot as say_snapshot
from gpumemshim.compat import _cuda
from gpumemshim.compat._cuda import MB


class DetailedMemorySnapshot:
    """What PyTorch counted at one moment."""

    def __init__(self, name, device="cuda"):
        self.name, self.device, self.timestamp = name, device, time.time()
        cuda = _cuda.torch_cuda() if str(device).startswith("cuda") else None
        self.allocated = cuda.memory_allocated(device) / MB if cuda else 0
        self.reserved = cuda.memory_reserved(device) / MB if cuda else 0
        self.max_allocated = cuda.max_memory_allocated(device) / MB if cuda else 0

    def to_dict(self):
        return {"name": self.name, "allocated_mb": self.allocated, "reserved_mb": self.reserved, "max_allocated_mb": self.max_allocated, "timestamp": self.timestamp}


class EnhancedMemoryProfiler:
    """Of one model on one device."""

    def __init__(self, model, device="cuda"):
        self.model, self.device = model, device
        self.is_cuda = str(device).startswith("cuda") and _cuda.torch_cuda() is not None
        self.snapshots, self.hooks = [], []
        self.component_memory = collections.defaultdict(list)
        self.activation_memory = self.norm_sample_memory = self.temp_matrix_memory = 0

    def reset(self):
        """Forgets what was noted, resets PyTorch's peaks and empties its cache."""
        if self.is_cuda:
            _cuda.torch_cuda().reset_peak_memory_stats(self.device)
            _cuda.torch_cuda().empty_cache()
        self.snapshots.clear()
        self.component_memory.clear()
        self.activation_memory = self.norm_sample_memory = self.temp_matrix_memory = 0

    def take_snapshot(self, name):
        """Notes a moment, here and in the trace."""
        say_snapshot(name)
        self.snapshots.append(DetailedMemorySnapshot(name, self.device))
        return self.snapshots[-1]

    def register_component_hooks(self):
        """Hooks on the modules without children: of the inputs that Opacus keeps for them, and of the norms of each sample, the most at one time counts."""

        def after_forward(module, _inputs, _outputs):
            held = sum(_cuda.bytes_of(each) for kept in getattr(module, "activations", None) or () for each in kept if hasattr(each, "element_size"))
            self._note("activation_hooks", module, held / MB)

        def after_backward(module, _inputs, _outputs):
            norms = [parameter._norm_sample for parameter in module.parameters(recurse=False) if getattr(parameter, "_norm_sample", None) is not None]
            self._note("norm_samples", module, sum(map(_cuda.bytes_of, norms)) / MB)

        self._held = collections.defaultdict(dict)
        for module in self.model.modules():
            if next(module.children(), None) is None:
                self.hooks += [module.register_forward_hook(after_forward), module.register_full_backward_hook(after_backward)]

    def _note(self, part, module, held):
        self._held[part][id(module)] = held
        total = sum(self._held[part].values())
        self.component_memory[part].append(total)
        if part == "activation_hooks":
            self.activation_memory = max(self.activation_memory, total)
        else:
            self.norm_sample_memory = max(self.norm_sample_memory, total)

    def clear_hooks(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()

    def estimate_model_memory(self):
        return sum(map(_cuda.bytes_of, self.model.parameters())) / MB

    def estimate_gradient_memory(self):
        return _cuda.gradients_mb(self.model)

    def estimate_optimizer_memory(self, optimizer):
        return _cuda.optimizer_mb(optimizer)

    def get_detailed_breakdown(self, optimizer=None):
        """{part_mb: size} at this moment; with peak_allocated_mb, PyTorch's peak since the start or reset()."""
        parts = {"model_parameters_mb": self.estimate_model_memory(), "gradients_mb": self.estimate_gradient_memory()}
        parts.update(activation_hooks_mb=self.activation_memory, norm_samples_mb=self.norm_sample_memory, temp_matrices_mb=self.temp_matrix_memory)
        if optimizer is not None:
            parts["optimizer_states_mb"] = self.estimate_optimizer_memory(optimizer)
        if self.is_cuda:
            cuda = _cuda.torch_cuda()
            parts["total_allocated_mb"] = cuda.memory_allocated(self.device) / MB
            parts["total_reserved_mb"] = cuda.memory_reserved(self.device) / MB
            parts["peak_allocated_mb"] = cuda.max_memory_allocated(self.device) / MB
        return parts

    def save_results(self, output_path, optimizer=None):
        """Writes snapshots and breakdown as JSON, and returns them."""
        results = {"snapshots": [each.to_dict() for each in self.snapshots], "breakdown": self.get_detailed_breakdown(optimizer), "component_memory": dict(self.component_memory)}
        with open(output_path, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=2)
        print(f"✓ Results saved to {output_path}")
        return results


def print_memory_breakdown(breakdown):
    """Prints a breakdown, largest part first, with its share of the peak."""
    print("\n" + "=" * 80, "DETAILED MEMORY BREAKDOWN", "=" * 80, sep="\n")
    peak = breakdown.get("peak_allocated_mb", 0)
    for name, size in sorted(((name, size) for name, size in breakdown.items() if name.endswith("_mb")), key=lambda row: -row[1]):
        print(f"  {name[:-3].replace('_', ' ').title():<30} {size:>10.2f} MB  ({size / peak * 100 if peak else 0:>5.1f}%)")
    print("=" * 80 + "\n")


if __name__ == "__main__":
    import sys

    from gpumemshim.compat import gpu_memory_profiler

    sys.exit(gpu_memory_profiler.main(default_folder="detailed_results", is_detailed=True))
