# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The command `benchmark/debug_memory_usage.py` of the memory debug tools.

    python -m gpumemshim.compat.debug_memory_usage --debug_level full --pkg matplotlib --version 3.8.0 --precision fp16 --setup setup.py

The original takes model and data from its own repository. Here they come from a file of yours, which --setup names (default: memory_debug_setup.py of the working directory); without one,
and without --model_name, a small LoRA model of this module is shown, and the first line says so. The file may define

    config         a dict, as for debug_lora_training (compat/_lora.py): `model` or `model_name`, `r`, `alpha`, `lr`, `max_steps`, ...
    dataloader     batches, or a function without arguments that makes them
    create_model   create_model(config), instead of config's
    train_model    train_model(model, dataloader, config, precision), instead of AdamW
    variations     {name: changes of config} for --debug_level comparison; default: LoRA of rank 8, 16 and 32

Levels: model_only makes the model and breaks it down; full makes and trains it; custom runs the three stages one by one and prints the report of them; comparison makes one
model for each variation and names the smallest. The last line is the answer's file, --output (debug_memory_usage.json in --log_dir). MB are 1,048,576 bytes.
Exit codes: 0; 2 usage error.
"""

import argparse
import json
import os
import runpy
import sys

from gpumemshim.compat import _lora, _lora_example
from gpumemshim.compat.trainWithMemoryDebug import TrainingMemoryProfiler, analyze_model_memory_only, debug_lora_training, debug_memory_with_different_configs, memory_profiled_training

SETUP = "memory_debug_setup.py"
RANKS = {"small_r": {"r": 8, "alpha": 16}, "medium_r": {"r": 16, "alpha": 32}, "large_r": {"r": 32, "alpha": 64}}


class Setup:
    """What is debugged: of the file, and of the command line."""

    def __init__(self, arguments):
        place = arguments.setup or (SETUP if os.path.exists(SETUP) else None)
        given = runpy.run_path(place) if place else {} if arguments.model_name else _lora_example.setup()
        self.config = {**given.get("config", {}), **({"model_name": arguments.model_name} if arguments.model_name else {})}
        self.create_model, self.train_model = given.get("create_model"), given.get("train_model")
        self.variations = given.get("variations", RANKS)
        self.batches = given.get("dataloader")
        if not self.create_model and not {"model", "model_name"} & set(self.config):
            raise ValueError("no model: name one with --model_name, or a file with --setup that defines create_model or config['model']")

    def dataloader(self):
        if self.batches is None:
            raise ValueError("no data to train with: define `dataloader` in the file of --setup, or choose --debug_level model_only")
        return self.batches() if callable(self.batches) else self.batches


def model_only(setup, arguments):
    profiler = TrainingMemoryProfiler(log_dir=arguments.log_dir, enable_real_time=False)
    model, creation = profiler.profile_model_creation(setup.config, f"{arguments.pkg}_{arguments.version}", setup.create_model)
    profiler.cleanup()
    analysis = analyze_model_memory_only(model, f"{arguments.pkg}_{arguments.version}", arguments.log_dir)
    print(f"[INFO] 模型创建内存占用: {creation['summary']['total_memory_mb']:.2f} MB")
    return {"creation_analysis": creation, "summary": analysis["summary"]}


def full(setup, arguments):
    _, results = debug_lora_training(setup.config, setup.dataloader(), arguments.precision, arguments.pkg, arguments.version, arguments.knowledge_type, arguments.log_dir, setup.create_model, setup.train_model)
    print(f"[INFO] 模型创建内存占用: {results['creation_analysis']['summary']['total_memory_mb']:.2f} MB")
    print(f"[INFO] 训练后内存占用: {results['training_analysis']['summary']['total_memory_mb']:.2f} MB")
    print(f"[INFO] 检测到的内存问题: {results['memory_issues']}")
    return results


def custom(setup, arguments):
    with memory_profiled_training(log_dir=arguments.log_dir) as profiler:
        model = profiler.profile_stage("model_creation", setup.create_model or _lora.create_model, setup.config)
        dataloader = profiler.profile_stage("data_loading", setup.dataloader)
        profiler.profile_stage("training", setup.train_model or _lora.train_model, model, dataloader, setup.config, arguments.precision)
        report = profiler.generate_training_report()
    print(report)
    stages = [{"stage": each["stage"], "gpu_memory_diff": each["memory_comparison"]["gpu_memory_diff"]} for each in profiler.training_stages]
    return {"stages": stages, "memory_issues": profiler.detect_memory_issues()}


def comparison(setup, arguments):
    results = debug_memory_with_different_configs(setup.config, setup.variations, arguments.log_dir, setup.create_model)
    for name, row in results.items():
        print(f"[INFO] {name}: {row['memory_mb']:.2f} MB")
    best = min(results, key=lambda name: results[name]["memory_mb"])
    print(f"[INFO] 最优配置: {best}, 内存占用: {results[best]['memory_mb']:.2f} MB")
    return {"best": best, "memory_mb": {name: row["memory_mb"] for name, row in results.items()}, "allocated_mb": {name: row["allocated_mb"] for name, row in results.items()}}


LEVELS = {"model_only": model_only, "full": full, "custom": custom, "comparison": comparison}


def main(words=None):
    parser = argparse.ArgumentParser(prog="debug_memory_usage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debug_level", choices=sorted(LEVELS), default="full")
    parser.add_argument("--pkg", default="model", help="part of the model's name in reports")
    parser.add_argument("--version", default="0", help="the same")
    parser.add_argument("--precision", choices=("fp16", "bf16", "fp32"), default="fp16")
    parser.add_argument("--knowledge_type", default="code", help="accepted; of no effect here")
    parser.add_argument("--setup", help=f"a Python file: see above ({SETUP}, where it exists)")
    parser.add_argument("--model_name", help="transformers' name, or a folder")
    parser.add_argument("--log_dir", default="logs/memory_debug")
    parser.add_argument("--output")
    arguments = parser.parse_args(words)
    try:
        answer = LEVELS[arguments.debug_level](Setup(arguments), arguments)
    except (ValueError, OSError) as error:
        print(f"debug_memory_usage: {error}", file=sys.stderr)
        return 2
    path = arguments.output or os.path.join(arguments.log_dir, "debug_memory_usage.json")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(answer, file, ensure_ascii=False, indent=2, default=str)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
