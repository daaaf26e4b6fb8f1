# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Snapshots and comparisons in single calls, with lines of [INFO], [WARNING] and [ERROR].

    from gpumemshim.compat.quickMemoryDebug import memory_snapshot, monitor_function, check_memory_status

    memory_snapshot("before_training")
    result, comparison = monitor_function(train, model)
    check_memory_status(threshold_mb=500.0)

Sizes are in MB of 1,048,576 bytes.
"""

import datetime
import gc
import logging
import os

from gpumemshim._annotations import mark
from gpumemshim.compat import _cuda, _model_sizes
from gpumemshim.compat._cuda import MB
from gpumemshim.compat._logs import logger_of_tool

HIGH_UTILIZATION = 90


class QuickMemoryDebugger:
    """Says what it finds, on standard output and in log_dir/quick_debug.log. log_dir: default logs/quick_debug_TIME."""

    def __init__(self, log_dir=None, enable_logging=True):
        self.log_dir = log_dir or f"logs/quick_debug_{datetime.datetime.now().strftime('%Y%m%d_%H%M%S')}"
        self.enable_logging, self.logger = enable_logging, None
        os.makedirs(self.log_dir, exist_ok=True)
        if enable_logging:
            self.logger = logger_of_tool("QuickMemoryDebug")
            self.logger.propagate = False
            handler = logging.FileHandler(os.path.join(self.log_dir, "quick_debug.log"), encoding="utf-8")
            handler.setFormatter(logging.Formatter("%(asctime)s - %(levelname)s - %(message)s"))
            self.logger.addHandler(handler)

    def _say(self, level, text):
        if self.logger is not None:
            self.logger.log(getattr(logging, level), text)
        print(f"[{level}] {text}")

    def log_info(self, message):
        self._say("INFO", message)

    def log_warning(self, message):
        self._say("WARNING", message)

    def log_error(self, message):
        self._say("ERROR", message)

    def get_memory_snapshot(self, name="snapshot"):
        """{"name", "timestamp", "gpu_summary": [{"gpu_id", "allocated_mb", "utilization_percent", "free_mb"}, ...]}, and a mark of that name."""
        self.log_info(f"获取内存快照: {name}")
        mark(name)
        gpus = _cuda.gpus()
        for gpu in gpus:
            self.log_info(self._usage(gpu))
        rows = [{"gpu_id": gpu.device, "allocated_mb": gpu.allocated / MB, "utilization_percent": gpu.utilization, "free_mb": (gpu.total - gpu.reserved) / MB} for gpu in gpus]
        return {"name": name, "timestamp": datetime.datetime.now().isoformat(), "gpu_summary": rows}

    @staticmethod
    def _usage(gpu):
        return f"  GPU {gpu.device}: {gpu.allocated / MB:.1f}MB / {gpu.total / MB:.1f}MB ({gpu.utilization:.1f}%)"

    def analyze_model_quick(self, model, name="model"):
        """{"model_name", "total_params", "trainable_params", "memory_mb", "param_efficiency"} of a model; warns of large parameters, NaN and Inf."""
        self.log_info(f"快速分析模型: {name}")
        analysis = _model_sizes.analyze_parameters(model, name)
        summary = analysis["summary"]
        share = summary["trainable_parameters"] / summary["total_parameters"] * 100 if summary["total_parameters"] else 0.0
        quick = {"model_name": name, "total_params": summary["total_parameters"], "trainable_params": summary["trainable_parameters"], "memory_mb": summary["total_memory_mb"], "param_efficiency": share}
        self.log_info(f"  总参数: {quick['total_params']:,}")
        self.log_info(f"  可训练参数: {quick['trainable_params']:,}")
        self.log_info(f"  内存占用: {quick['memory_mb']:.2f} MB")
        self.log_info(f"  参数效率: {quick['param_efficiency']:.2f}%")
        for level, sentence in _model_sizes.anomalies_of(analysis):
            self._say(level, sentence)
        return quick

    def compare_snapshots(self, snapshot1, snapshot2):
        """{"from", "to", "gpu_changes": [{"gpu_id", "memory_change_mb", "utilization_change"}, ...]}."""
        self.log_info(f"比较内存快照: {snapshot1['name']} vs {snapshot2['name']}")
        changes = []
        for before, after in zip(snapshot1["gpu_summary"], snapshot2["gpu_summary"]):
            change = {"gpu_id": before["gpu_id"], "memory_change_mb": after["allocated_mb"] - before["allocated_mb"]}
            change["utilization_change"] = after["utilization_percent"] - before["utilization_percent"]
            changes.append(change)
            self.log_info(f"  GPU {change['gpu_id']}: 内存变化 {change['memory_change_mb']:+.1f}MB, 利用率变化 {change['utilization_change']:+.1f}%")
        return {"from": snapshot1["name"], "to": snapshot2["name"], "gpu_changes": changes}

    def monitor_function(self, func, *args, **kwargs):
        """(what the function returned, the comparison of after with before). What it raises goes through."""
        name = getattr(func, "__name__", str(func))
        self.log_info(f"开始监控函数: {name}")
        before = self.get_memory_snapshot(f"{name}_before")
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self.log_error(f"函数 {name} 执行失败: {error}")
            self.compare_snapshots(before, self.get_memory_snapshot(f"{name}_error"))
            raise
        comparison = self.compare_snapshots(before, self.get_memory_snapshot(f"{name}_after"))
        self.log_info(f"函数 {name} 执行完成")
        return result, comparison

    def check_memory_growth(self, threshold_mb=100.0):
        """Warns of each GPU on which more than this is allocated, or that is nearly full. Returns the sentences."""
        found = []
        for gpu in _cuda.gpus():
            if gpu.allocated / MB > threshold_mb:
                found.append(f"GPU {gpu.device} 内存使用超过阈值: {gpu.allocated / MB:.1f}MB > {threshold_mb}MB")
            if gpu.utilization > HIGH_UTILIZATION:
                found.append(f"GPU {gpu.device} 利用率过高: {gpu.utilization:.1f}%")
        for sentence in found:
            self.log_warning(sentence)
        return found

    def cleanup_memory(self):
        """Python's garbage collection, then PyTorch's empty_cache(). Returns the comparison."""
        self.log_info("清理GPU内存...")
        before = self.get_memory_snapshot("before_cleanup")
        gc.collect()
        if _cuda.torch_cuda() is not None:
            _cuda.torch_cuda().empty_cache()
        comparison = self.compare_snapshots(before, self.get_memory_snapshot("after_cleanup"))
        self.log_info("内存清理完成")
        return comparison

    def generate_quick_report(self):
        """The report as a text, also in log_dir/quick_report.txt."""
        system, rule = _cuda.system_memory(), "=" * 60
        lines = [rule, "快速内存调试报告", rule, f"生成时间: {datetime.datetime.now().strftime('%Y-%m-%d %H:%M:%S')}", f"日志目录: {self.log_dir}", "", "当前内存状态:"]
        lines += [self._usage(gpu) for gpu in _cuda.gpus()]
        lines.append(f"系统内存: {system['used_gb']:.1f}GB / {system['total_gb']:.1f}GB ({system['percent']:.1f}%)")
        path = os.path.join(self.log_dir, "quick_report.txt")
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines))
        self.log_info(f"快速报告已保存: {path}")
        return "\n".join(lines)


_debugger = None


def get_quick_debugger(log_dir=None):
    """The one of this process, made at the first call."""
    global _debugger
    if _debugger is None:
        _debugger = QuickMemoryDebugger(log_dir=log_dir)
    return _debugger


def memory_snapshot(name="snapshot"):
    return get_quick_debugger().get_memory_snapshot(name)


def analyze_model(model, name="model"):
    return get_quick_debugger().analyze_model_quick(model, name)


def compare_snapshots(snapshot1, snapshot2):
    return get_quick_debugger().compare_snapshots(snapshot1, snapshot2)


def monitor_function(func, *args, **kwargs):
    return get_quick_debugger().monitor_function(func, *args, **kwargs)


def check_memory_status(threshold_mb=100.0):
    return get_quick_debugger().check_memory_growth(threshold_mb)


def cleanup_memory():
    return get_quick_debugger().cleanup_memory()


def generate_report():
    return get_quick_debugger().generate_quick_report()
