# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What PyTorch counted on each GPU, and the machine's memory: read, never sampled. The current device stays what it is."""

import sys
import typing

MB = 1 << 20
GB = 1 << 30


class Gpu(typing.NamedTuple):
    """Of one GPU, in bytes, as PyTorch's allocator counts them."""

    device: int
    name: str
    total: int
    allocated: int
    reserved: int
    max_allocated: int
    max_reserved: int

    @property
    def utilization(self):
        """Percent of the GPU that is allocated."""
        return self.allocated / self.total * 100 if self.total else 0.0


def torch_cuda():
    """torch.cuda of a program that has imported PyTorch and has a GPU; None of any other."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None


def gpus():
    """A Gpu for each device; [] without PyTorch or without a GPU."""
    cuda = torch_cuda()
    if cuda is None:
        return []
    found = []
    for device in range(cuda.device_count()):
        properties = cuda.get_device_properties(device)
        counted = (cuda.memory_allocated(device), cuda.memory_reserved(device), cuda.max_memory_allocated(device), cuda.max_memory_reserved(device))
        found.append(Gpu(device, properties.name, properties.total_memory, *counted))
    return found


def system_memory():
    """{total_gb, available_gb, used_gb, percent} of the machine."""
    sizes = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                name, value, *_ = line.replace(":", " ").split()
                sizes[name] = int(value) * 1024
    except (OSError, ValueError):
        pass
    total, available = sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0)
    used = total - available
    return {"total_gb": total / GB, "available_gb": available / GB, "used_gb": used / GB, "percent": used / total * 100 if total else 0.0}


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def gradients_mb(model):
    return sum(bytes_of(parameter.grad) for parameter in model.parameters() if parameter.grad is not None) / MB


def optimizer_mb(optimizer):
    """Of the tensors in an optimizer's state, wherever they are in it."""
    found, waiting, seen = 0, list(optimizer.state.values()), set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if hasattr(each, "numel") and hasattr(each, "element_size"):
            found += bytes_of(each)
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
    return found / MB
