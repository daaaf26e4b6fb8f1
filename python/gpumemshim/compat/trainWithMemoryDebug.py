# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training watched stage by stage, its reports, and the problems that they show.

    with memory_profiled_training() as profiler:
        model = profiler.profile_stage("model_creation", create_model)
        profiler.profile_stage("training", train_model, model, loader)
        print(profiler.generate_training_report())

debug_lora_training() and debug_memory_with_different_configs() make the model and train it by _lora.py, or by functions that they are given.
"""

import contextlib
import datetime
import functools
import os
import re

from gpumemshim._annotations import stage as say_stage
from gpumemshim.compat import _lora
from gpumemshim.compat._cuda import MB
from gpumemshim.compat.memoryDebugger import create_memory_debugger

ABNORMAL_GROWTH_MB, EXCESSIVE_PERCENT, FRAGMENTED_SHARE, LEAK_MB = 500, 95, 0.3, 1
HINTS = {
    "general_suggestions": "阶段{stage}: GPU占用率过高({value:.1f}%)，建议降低batch_size或使用梯度累积",
    "gradient_optimization": "阶段{stage}: 梯度内存占用过高({value:.1f}MB)，建议使用梯度检查点或混合精度训练",
    "optimizer_optimization": "阶段{stage}: 优化器内存占用过高({value:.1f}MB)，建议使用内存友好的优化器",
}


class TrainingMemoryProfiler:
    """Stages of a training. training_stages: [{"stage", "timestamp", "memory_comparison", "peak_mb"}, ...]; json_reports: {stage: report}."""

    def __init__(self, log_dir="logs/training_memory_debug", enable_real_time=True):
        self.log_dir, self.enable_real_time = log_dir, enable_real_time
        self.debugger = create_memory_debugger(log_dir=log_dir, enable_real_time=enable_real_time)
        self.training_stages, self.json_reports = [], {}

    def profile_stage(self, stage_name, stage_function, *args, **kwargs):
        """Calls a function as a stage, and returns what it returned. The comparison is the last of training_stages."""
        print(f"🔍 开始监控阶段: {stage_name}")
        self.debugger.create_memory_checkpoint(f"{stage_name}_start")
        try:
            with say_stage(stage_name):
                result = stage_function(*args, **kwargs)
        except Exception as error:
            print(f"❌ 阶段 {stage_name} 出错: {error}")
            raise
        self.debugger.create_memory_checkpoint(f"{stage_name}_complete")
        comparison = self.debugger.compare_checkpoints(f"{stage_name}_start", f"{stage_name}_complete")
        peaks = [gpu["max_allocated_mb"] for gpu in self.debugger.checkpoint_history[-1]["memory_usage"]["gpu_memory"]]
        self.training_stages.append({"stage": stage_name, "timestamp": datetime.datetime.now().isoformat(), "memory_comparison": comparison, "peak_mb": max(peaks, default=0.0)})
        return result

    def profile_stage_with_json_report(self, stage_name, stage_function, model=None, optimizer=None, *args, **kwargs):
        """(what the function returned, the comparison); with a model also its reports before and after."""
        if model is not None:
            self._report(f"{stage_name}_start", model, f"{stage_name}_model", optimizer)
        result = self.profile_stage(stage_name, stage_function, *args, **kwargs)
        if model is not None:
            self._report(f"{stage_name}_complete", model, f"{stage_name}_model", optimizer)
        return result, self.training_stages[-1]["memory_comparison"]

    def _report(self, stage, model, model_name, optimizer=None):
        self.json_reports[stage] = self.debugger.generate_detailed_memory_json_report(model, model_name, optimizer, stage)
        return self.json_reports[stage]

    def profile_model_creation(self, config, model_name="lora_model", create_model=None):
        """(the model, the comparison with "summary", whose total_memory_mb is what making the model allocated). create_model(config): default as _lora."""
        model = self.profile_stage(f"{model_name}_creation", create_model or _lora.create_model, config)
        summary, comparison = self._report("model_creation", model, model_name)["memory_summary"], self.training_stages[-1]["memory_comparison"]
        created = sum(row["allocated_diff_mb"] for row in comparison["gpu_memory_diff"]) or summary["component_breakdown"]["parameters"]
        return model, {**comparison, "summary": {**summary, "total_memory_mb": created}}

    def profile_training_process(self, config, dataloader, precision="fp16", pkg=None, version=None, knowledge_type=None, model=None, train_model=None):
        """(the trained model, the comparison with "summary" of all that is allocated then, and "peak_mb"). train_model(model, dataloader, config, precision): default as _lora.train_model."""
        name = f"{pkg}_{version}" if pkg and version else "lora_model"
        model = model if model is not None else _lora.create_model(config)
        trained = self.profile_stage(f"{name}_training", train_model or _lora.train_model, model, dataloader, config, precision)
        trained = trained if trained is not None else model
        report = self._report("training_complete", trained, name)
        return trained, {**self.training_stages[-1]["memory_comparison"], "summary": report["memory_summary"], "peak_mb": self.training_stages[-1]["peak_mb"]}

    def get_json_reports(self):
        return self.json_reports

    def save_all_json_reports(self):
        """Writes all reports, and how memory went from stage to stage, into log_dir."""
        self.debugger._save("all_memory_reports", self.json_reports)
        steps = [{"stage": stage, **report["memory_summary"], "occupancy_percentage": report["occupancy_percentages"]["total_used_percentage"]} for stage, report in self.json_reports.items()]
        most = max(steps, key=lambda row: row["total_memory_mb"], default={"stage": None, "total_memory_mb": 0})
        summary = {"timestamp": datetime.datetime.now().isoformat(), "stages_analyzed": list(self.json_reports), "memory_progression": steps}
        return self.debugger._save("memory_summary_all_stages", {**summary, "peak_memory_usage": {"stage": most["stage"], "memory_mb": most["total_memory_mb"]}})

    def compare_training_stages(self):
        """[(title, comparison), ...] of the stages."""
        return [(f"{each['stage']}: 开始 vs 完成", each["memory_comparison"]) for each in self.training_stages]

    def detect_memory_issues(self):
        """{"memory_leaks", "excessive_usage", "abnormal_growth", "fragmentation"}, each a list of dicts.

        A leak is a stage of one name that left more behind each time that it was called.
        """
        issues = {"memory_leaks": self._leaks(), "excessive_usage": [], "abnormal_growth": [], "fragmentation": []}
        history = self.debugger.checkpoint_history
        for before, after in zip(history, history[1:]):
            for first, second in zip(before["memory_usage"]["gpu_memory"], after["memory_usage"]["gpu_memory"]):
                growth = second["allocated_mb"] - first["allocated_mb"]
                if growth > ABNORMAL_GROWTH_MB:
                    issues["abnormal_growth"].append({"from_checkpoint": before["name"], "to_checkpoint": after["name"], "gpu_id": first["device_id"], "growth_mb": growth})
        for checkpoint in history:
            for gpu in checkpoint["memory_usage"]["gpu_memory"]:
                place = {"checkpoint": checkpoint["name"], "gpu_id": gpu["device_id"]}
                unused = gpu["reserved_mb"] - gpu["allocated_mb"]
                if gpu["utilization_percent"] > EXCESSIVE_PERCENT:
                    issues["excessive_usage"].append({**place, "utilization_percent": gpu["utilization_percent"]})
                if gpu["allocated_mb"] > 0 and unused / gpu["reserved_mb"] > FRAGMENTED_SHARE:
                    issues["fragmentation"].append({**place, "fragmentation_ratio": unused / gpu["reserved_mb"], "wasted_mb": unused})
        titles = {"memory_leaks": "内存泄漏", "abnormal_growth": "异常增长", "excessive_usage": "过度使用", "fragmentation": "内存碎片化"}
        print("\n📋 内存问题检测结果:", *(f"  {title}: {len(issues[kind])} 个" for kind, title in titles.items()), sep="\n")
        return issues

    def _leaks(self):
        grown = {}
        for each in self.training_stages:
            for row in each["memory_comparison"].get("gpu_memory_diff", []):
                grown.setdefault((each["stage"], row["device_id"]), []).append(row["allocated_diff_mb"])
        return [
            {"stage": stage, "gpu_id": gpu, "calls": len(sizes), "growth_mb": sum(sizes)} for (stage, gpu), sizes in grown.items() if len(sizes) > 2 and min(sizes[1:]) > 0 and sum(sizes[1:]) > LEAK_MB
        ]

    def generate_training_report(self, output_file=None):
        """The debugger's report, with stages and problems, as a text that is also written to a file."""
        lines = [self.debugger.generate_memory_report(output_file), "", "=" * 80, "训练特定信息", "=" * 80, "训练阶段比较:"]
        for title, comparison in self.compare_training_stages():
            lines += [title, *(f"  GPU {row['device_id']}: 内存变化 {row['allocated_diff_mb']:+.2f} MB" for row in comparison.get("gpu_memory_diff", []))]
        issues = self.detect_memory_issues()
        lines.append("内存问题检测:")
        lines += [f"  内存泄漏: {row['stage']}: GPU {row['gpu_id']} 增长 {row['growth_mb']:.2f} MB" for row in issues["memory_leaks"]]
        lines += [f"  异常增长: {row['from_checkpoint']} -> {row['to_checkpoint']}: GPU {row['gpu_id']} 增长 {row['growth_mb']:.2f} MB" for row in issues["abnormal_growth"]]
        lines += [f"  过度使用: {row['checkpoint']}: GPU {row['gpu_id']} 使用率 {row['utilization_percent']:.1f}%" for row in issues["excessive_usage"]]
        lines += [f"  内存碎片化: {row['checkpoint']}: GPU {row['gpu_id']} 碎片化 {row['fragmentation_ratio']:.1%}, 浪费 {row['wasted_mb']:.2f} MB" for row in issues["fragmentation"]]
        if not any(issues.values()):
            lines.append("  未检测到内存问题")
        text = "\n".join(lines)
        if output_file:
            with open(output_file, "w", encoding="utf-8") as out:
                out.write(text)
        return text

    def cleanup(self):
        self.debugger.stop_real_time_monitoring()
        self.generate_training_report()


@contextlib.contextmanager
def memory_profiled_training(log_dir="logs/training_memory_debug", enable_real_time=True):
    """A TrainingMemoryProfiler that records while it is used, and writes its reports at the end."""
    profiler = TrainingMemoryProfiler(log_dir=log_dir, enable_real_time=enable_real_time)
    if enable_real_time:
        profiler.debugger.start_real_time_monitoring()
    try:
        yield profiler
    finally:
        profiler.debugger.stop_real_time_monitoring()
        profiler.save_all_json_reports()
        profiler.generate_training_report()
        print(f"📊 详细报告已保存到: {log_dir}")


def monitor_memory(log_dir="logs/training_memory_debug", enable_real_time=True):
    """A decorator: the function gets the profiler as its first argument."""

    def decorator(function):
        @functools.wraps(function)
        def watched(*args, **kwargs):
            with memory_profiled_training(log_dir=log_dir, enable_real_time=enable_real_time) as profiler:
                return function(profiler, *args, **kwargs)

        return watched

    return decorator


def debug_lora_training(config, dataloader, precision="fp16", pkg=None, version=None, knowledge_type=None, log_dir="logs/lora_training_debug", create_model=None, train_model=None):
    """(the trained model, {"creation_analysis", "training_analysis", "memory_issues", "stage_comparisons", "json_reports", "summary"}).

    create_model(config) and train_model(model, dataloader, config, precision) are the program's own; default as in _lora.py.
    """
    print(f"🔍 开始调试LoRA训练: {pkg}-{version}")
    with memory_profiled_training(log_dir=log_dir) as profiler:
        model, creation = profiler.profile_model_creation(config, f"{pkg}_{version}", create_model)
        trained, training = profiler.profile_training_process(config, dataloader, precision, pkg, version, knowledge_type, model, train_model)
        issues, reports = profiler.detect_memory_issues(), profiler.get_json_reports()
        peak, stage = max(((report["memory_summary"]["total_memory_mb"], stage) for stage, report in reports.items()), default=(0, None))
        summary = {"total_stages_analyzed": len(reports), "stages": list(reports), "peak_memory_stage": stage, "peak_memory_mb": peak, "peak_allocated_mb": training["peak_mb"]}
        results = {"creation_analysis": creation, "training_analysis": training, "memory_issues": issues}
        return trained, {**results, "stage_comparisons": profiler.compare_training_stages(), "json_reports": reports, "summary": summary}


def debug_memory_with_different_configs(base_config, config_variations, log_dir="logs/config_comparison", create_model=None):
    """{name: {"memory_mb", "allocated_mb", "config", "analysis"}}: a model made from the base with each variation, one after the other.

    memory_mb: of its parameters. allocated_mb: what making it allocated on the GPUs.
    """
    results = {}
    for name, variation in config_variations.items():
        print(f"🔍 配置: {name}")
        config = {**base_config, **variation}
        profiler = TrainingMemoryProfiler(log_dir=os.path.join(log_dir, re.sub(r"[^\w.-]+", "_", name)), enable_real_time=False)
        model, creation = profiler.profile_model_creation(config, name, create_model)
        allocated = sum(row["allocated_diff_mb"] for row in creation["gpu_memory_diff"])
        memory = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) / MB
        results[name] = {"memory_mb": memory, "allocated_mb": allocated, "config": config, "analysis": creation}
        del model
    return results


def analyze_model_memory_only(model, model_name="model", log_dir="logs/model_memory_analysis"):
    """{"json_report", "parameter_analysis", "memory_report", "summary"} of a model that is there."""
    debugger = create_memory_debugger(log_dir=log_dir, enable_real_time=False)
    report = debugger.generate_detailed_memory_json_report(model, model_name, None, "model_analysis")
    analysis = debugger.analyze_model_parameters(model, model_name)
    summary = {"total_parameters": analysis["summary"]["total_parameters"], "total_memory_mb": report["memory_summary"]["total_memory_mb"]}
    summary["gpu_occupancy_percentage"] = report["occupancy_percentages"]["total_used_percentage"]
    return {"json_report": report, "parameter_analysis": analysis, "memory_report": debugger.generate_memory_report(), "summary": summary}


def generate_memory_optimization_suggestions(json_reports):
    """{kind: [sentence, ...]} where a stage's report shows a reason: over 90 % of the GPU, gradients over 1 GB, optimizer state over 2 GB."""
    suggestions = {"general_suggestions": [], "parameter_optimization": [], "gradient_optimization": [], "optimizer_optimization": [], "training_optimization": []}
    for stage, report in json_reports.items():
        parts = report.get("memory_summary", {}).get("component_breakdown", {})
        used = report.get("occupancy_percentages", {}).get("total_used_percentage", 0)
        for kind, value, limit in (("general_suggestions", used, 90), ("gradient_optimization", parts.get("gradients") or 0, 1000), ("optimizer_optimization", parts.get("optimizer") or 0, 2000)):
            if value > limit:
                suggestions[kind].append(HINTS[kind].format(stage=stage, value=value))
    return suggestions
