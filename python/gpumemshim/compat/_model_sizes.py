# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a model's parameters, gradients and optimizer state take, by group of names: for memoryDebugger and its reports."""

import collections
import datetime

from gpumemshim._live import has_values, is_simulated
from gpumemshim.compat import _cuda
from gpumemshim.compat._cuda import MB

# In this order: the first whose words are in a parameter's name has it.
GROUPS = (
    ("lora_adapters", ("lora",)),
    ("embeddings", ("embed", "wte", "wpe")),
    ("output_layers", ("lm_head", "classifier")),
    ("normalization", ("norm", "ln_")),
    ("attention_layers", ("attn", "attention", "q_proj", "k_proj", "v_proj", "o_proj")),
    ("feedforward_layers", ("mlp", "feed_forward", "ffn", "gate_proj", "up_proj", "down_proj")),
    ("transformer_layers", ("layers",)),
)

NO_VALUES = "无法检查NaN/Inf和梯度: simulated CUDA computes no values"


def group_of(name):
    """The group of a parameter's name; "other" where no word fits."""
    lower = name.lower()
    return next((group for group, words in GROUPS if any(word in lower for word in words)), "other")


def statistics_of(tensor):
    """{min, max, mean, std, norm, has_nan, has_inf} of a tensor of floats, {} of any other and where no values exist; runs kernels and waits for them."""
    import torch

    if not tensor.is_floating_point() or tensor.numel() == 0 or not has_values(tensor):
        return {}
    with torch.no_grad():
        values = tensor.detach().float()
        has_nan, has_inf = bool(torch.isnan(values).any()), bool(torch.isinf(values).any())
        spread = values.std().item() if values.numel() > 1 else 0.0
        return {"min": values.min().item(), "max": values.max().item(), "mean": values.mean().item(), "std": spread, "norm": values.norm().item(), "has_nan": has_nan, "has_inf": has_inf}


def parameter_of(name, parameter, with_statistics):
    row = {
        "name": name,
        "shape": list(parameter.shape),
        "dtype": str(parameter.dtype),
        "device": str(parameter.device),
        "requires_grad": parameter.requires_grad,
        "num_params": parameter.numel(),
        "memory_mb": _cuda.bytes_of(parameter) / MB,
        "memory_bytes": _cuda.bytes_of(parameter),
        "is_lora": "lora" in name.lower(),
    }
    statistics = statistics_of(parameter) if with_statistics else {}
    return {**row, "data_stats": statistics} if statistics else row


def sums_of(rows):
    return {"count": len(rows), "total_params": sum(row["num_params"] for row in rows), "trainable_params": sum(row["num_params"] for row in rows if row["requires_grad"]), "memory_mb": sum(row["memory_mb"] for row in rows)}


def analyze_parameters(model, model_name, with_statistics=True):
    """Parameters by group, by device, and in sum; the gradients that are there."""
    rows = [parameter_of(name, parameter, with_statistics) for name, parameter in model.named_parameters()]
    groups, devices = collections.defaultdict(list), collections.defaultdict(list)
    for row in rows:
        groups[group_of(row["name"])].append(row)
        devices[row["device"]].append(row)
    total = sums_of(rows)
    summary = {
        "total_parameters": total["total_params"],
        "trainable_parameters": total["trainable_params"],
        "total_memory_mb": total["memory_mb"],
        "memory_per_param_bytes": total["memory_mb"] * MB / total["total_params"] if total["total_params"] else 0,
    }
    return {
        "model_name": model_name,
        "timestamp": datetime.datetime.now().isoformat(),
        "parameter_groups": {group: {"parameters": some, **sums_of(some)} for group, some in groups.items()},
        "device_distribution": {device: [{"name": row["name"], "memory_mb": row["memory_mb"], "params": row["num_params"]} for row in some] for device, some in devices.items()},
        "memory_usage": {device: sum(row["memory_mb"] for row in some) for device, some in devices.items()},
        "parameter_counts": {device: sum(row["num_params"] for row in some) for device, some in devices.items()},
        "gradient_info": analyze_gradients(model, with_statistics),
        "summary": summary,
    }


def analyze_gradients(model, with_statistics=True):
    found = [(name, parameter.grad) for name, parameter in model.named_parameters() if parameter.grad is not None]
    devices = collections.defaultdict(list)
    for name, gradient in found:
        devices[str(gradient.device)].append({"name": name, "memory_mb": _cuda.bytes_of(gradient) / MB, "shape": list(gradient.shape)})
    return {
        "total_gradient_memory_mb": sum(_cuda.bytes_of(gradient) for _, gradient in found) / MB,
        "gradient_count": len(found),
        "gradient_distribution": dict(devices),
        "gradient_stats": {name: statistics_of(gradient) for name, gradient in found} if with_statistics else {},
    }


def anomalies_of(analysis, large_mb=100.0):
    """[(level, sentence), ...] of an analysis: parameters larger than large_mb, NaN and Inf in parameters and in gradients, or that these cannot be checked."""
    found = [("WARNING", NO_VALUES)] if is_simulated() and any(device.startswith("cuda") for device in analysis["device_distribution"]) else []
    for group in analysis["parameter_groups"].values():
        for row in group["parameters"]:
            if row["memory_mb"] > large_mb:
                found.append(("WARNING", f"大参数检测: {row['name']} ({row['memory_mb']:.2f} MB)"))
            found += wrong_values("参数", row["name"], row.get("data_stats", {}))
    for name, statistics in analysis["gradient_info"]["gradient_stats"].items():
        found += wrong_values("梯度", name, statistics)
    return found


def wrong_values(what, name, statistics):
    return [("ERROR", f"{what}包含{kind}: {name}") for kind, key in (("NaN", "has_nan"), ("Inf", "has_inf")) if statistics.get(key)]
