# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""MemoryDebugger: checkpoints and their comparison, parameters by group, reports as text and JSON.

    with create_memory_debugger(log_dir="logs/memory_debug") as debugger:
        debugger.create_memory_checkpoint("start")
        problematic_function()
        debugger.create_memory_checkpoint("after_problem")
        debugger.compare_checkpoints("start", "after_problem")

Sizes are in MB of 1,048,576 bytes. Monitoring in real time samples nothing: the recorder notes each change, and memory_history has them from the trace, also while
it monitors (docs/compat.md).
"""

import datetime
import json
import logging
import os
import re
import time

from gpumemshim import _program
from gpumemshim._annotations import mark
from gpumemshim._error import GpumemError
from gpumemshim._record import record
from gpumemshim.compat import _cuda, _model_sizes
from gpumemshim.compat import _debugger_watch as watch
from gpumemshim.compat._cuda import GB, MB
from gpumemshim.compat._logs import logger_of_tool

FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
HIGH_UTILIZATION, GROWTH_MB, MOST_HISTORY = 90, 100, 1000
PARTS = {"base_model": "基础模型", "lora_parameters": "LoRA参数", "gradients": "梯度", "optimizer_states": "优化器状态", "activations": "激活值", "other": "其他"}


class MemoryDebugger:
    """Writes its log, checkpoints and reports into log_dir. enable_real_time: record while it is used as a context manager."""

    def __init__(self, log_dir="logs/memory_debug", enable_real_time=True):
        self.log_dir, self.enable_real_time, self.monitoring_active = log_dir, enable_real_time, False
        self._kept, self._since, self._watcher = [], "", None
        self.checkpoint_history, self.parameter_registry = [], {}
        self._recorder = self._recording = None
        os.makedirs(log_dir, exist_ok=True)
        self.logger = self._open_log()
        self.gpu_info = [{"device_id": gpu.device, "name": gpu.name, "total_memory_gb": gpu.total / GB, "total_memory_mb": gpu.total / MB} for gpu in _cuda.gpus()]
        lines = ["=" * 80, "内存调试器初始化完成", "=" * 80, f"日志目录: {log_dir}", f"实时监控: {enable_real_time}", f"检测到GPU数量: {len(self.gpu_info)}"]
        self._say(*lines, *(f"GPU {gpu['device_id']}: {gpu['name']} ({gpu['total_memory_gb']:.1f}GB)" for gpu in self.gpu_info))

    def _open_log(self):
        logger = logger_of_tool("MemoryDebugger")
        for handler in (logging.FileHandler(self._file("memory_debug", "log"), encoding="utf-8"), logging.StreamHandler()):
            handler.setFormatter(logging.Formatter(FORMAT))
            logger.addHandler(handler)
        return logger

    def _say(self, *lines, level=logging.INFO):
        for line in lines:
            self.logger.log(level, line)

    def _file(self, name, ending):
        """A path in log_dir that bears the time; what people called something is made a file's name."""
        name = re.sub(r"[^\w.-]+", "_", name)[:100]
        return os.path.join(self.log_dir, f"{name}_{datetime.datetime.now().strftime('%Y%m%d_%H%M%S')}.{ending}")

    def _save(self, name, answer):
        path = self._file(name, "json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(answer, out, indent=2, ensure_ascii=False, default=str)
        return path

    # --- What is allocated now ---

    def get_current_memory_usage(self):
        """{"timestamp", "gpu_memory": [a dict for each GPU], "system_memory"} as PyTorch counts it."""
        rows = []
        for gpu in _cuda.gpus():
            row = {"device_id": gpu.device, "allocated_mb": gpu.allocated / MB, "reserved_mb": gpu.reserved / MB}
            row.update(max_allocated_mb=gpu.max_allocated / MB, max_reserved_mb=gpu.max_reserved / MB, total_mb=gpu.total / MB)
            rows.append({**row, "free_mb": (gpu.total - gpu.reserved) / MB, "utilization_percent": gpu.utilization})
        return {"timestamp": datetime.datetime.now().isoformat(), "gpu_memory": rows, "system_memory": _cuda.system_memory()}

    def analyze_model_parameters(self, model, model_name="model"):
        """What the parameters and gradients take, by group, by device and in sum; with their smallest, largest, mean, NaN and Inf."""
        analysis = self.parameter_registry[model_name] = _model_sizes.analyze_parameters(model, model_name)
        summary, gradients = analysis["summary"], analysis["gradient_info"]
        self._say("=" * 80, f"模型参数分析结果: {model_name}", "=" * 80, f"总参数数量: {summary['total_parameters']:,}", f"可训练参数数量: {summary['trainable_parameters']:,}")
        self._say(f"总内存占用: {summary['total_memory_mb']:.2f} MB", f"平均每参数内存: {summary['memory_per_param_bytes']:.2f} bytes", "按层级分组统计:")
        for name, group in analysis["parameter_groups"].items():
            self._say(f"  {name}:", f"    参数数量: {group['total_params']:,}", f"    可训练参数: {group['trainable_params']:,}", f"    内存占用: {group['memory_mb']:.2f} MB")
        self._say(*(f"  {device}: {analysis['parameter_counts'][device]:,} 个元素, {size:.2f} MB" for device, size in analysis["memory_usage"].items()))
        if gradients["gradient_count"]:
            self._say(f"有梯度的参数数量: {gradients['gradient_count']}", f"梯度总内存占用: {gradients['total_gradient_memory_mb']:.2f} MB")
        for level, sentence in _model_sizes.anomalies_of(analysis):
            self._say(sentence, level=getattr(logging, level))
        return analysis

    # --- Checkpoints ---

    def create_memory_checkpoint(self, checkpoint_name, model=None, additional_info=None):
        """Notes what is allocated now under a name, in a JSON file too; with a model its parameters."""
        self._say(f"创建内存检查点: {checkpoint_name}")
        mark(checkpoint_name)
        checkpoint = {"name": checkpoint_name, "timestamp": datetime.datetime.now().isoformat(), "memory_usage": self.get_current_memory_usage(), "additional_info": additional_info or {}}
        if model is not None:
            checkpoint["model_analysis"] = self.analyze_model_parameters(model, checkpoint_name)
        self.checkpoint_history.append(checkpoint)
        self._say(*(f"检查点 {checkpoint_name}: {gpu}" for gpu in checkpoint["memory_usage"]["gpu_memory"]), level=logging.DEBUG)
        self._say(f"检查点已保存: {self._save(f'checkpoint_{checkpoint_name}', checkpoint)}")
        return checkpoint

    def compare_checkpoints(self, checkpoint1_name, checkpoint2_name):
        """What changed from the last checkpoint of one name to the last of another; {} where there is no such checkpoint."""
        found = {each["name"]: each for each in self.checkpoint_history}
        first, second = found.get(checkpoint1_name), found.get(checkpoint2_name)
        if first is None or second is None:
            self._say(f"找不到检查点: {checkpoint1_name} 或 {checkpoint2_name}", level=logging.ERROR)
            return {}
        differences = []
        for before, after in zip(first["memory_usage"]["gpu_memory"], second["memory_usage"]["gpu_memory"]):
            changed = {f"{key}_diff_mb": after[f"{key}_mb"] - before[f"{key}_mb"] for key in ("allocated", "reserved")}
            differences.append({"device_id": before["device_id"], **changed, "utilization_diff_percent": after["utilization_percent"] - before["utilization_percent"]})
        self._say(f"检查点比较结果: {checkpoint1_name} vs {checkpoint2_name}")
        self._say(*(f"  GPU {row['device_id']}: 内存分配差异 {row['allocated_diff_mb']:.2f} MB, 利用率差异 {row['utilization_diff_percent']:.1f}%" for row in differences))
        models = [each["model_analysis"]["summary"] for each in (first, second) if "model_analysis" in each]
        of_model = {f"{key}_diff": models[1][key] - models[0][key] for key in models[0]} if len(models) == 2 else {}
        return {"checkpoint1": checkpoint1_name, "checkpoint2": checkpoint2_name, "gpu_memory_diff": differences, "model_parameter_diff": of_model}

    # --- Monitoring ---

    def start_real_time_monitoring(self, interval=1.0):
        """Records every change from now on; each `interval` seconds it warns of a GPU that is nearly full, or grew by more than GROWTH_MB since the look before."""
        if not self.enable_real_time or self.monitoring_active:
            self._say("实时监控未启用" if not self.enable_real_time else "实时监控已在运行", level=logging.WARNING)
            return
        self._recorder = record(name="memoryDebugger", optional=True)
        self._recording, self.monitoring_active, self._since = self._recorder.__enter__(), True, ""
        self._watcher = watch.Watcher(self._say_warning, interval, GROWTH_MB, HIGH_UTILIZATION)
        self._say("启动实时内存监控")

    def stop_real_time_monitoring(self):
        """Ends it; memory_history has what was allocated over time, and a file of it is written."""
        if not self.monitoring_active:
            return
        self._watcher.stop()
        self._recorder.__exit__(None, None, None)
        history = self.memory_history
        self.monitoring_active = False
        self.memory_history = history
        self._say("停止实时内存监控")
        self.save_monitoring_history()
        self._check_memory_anomalies()

    @property
    def memory_history(self):
        """[{"timestamp", "gpu_memory"}, ...]: while it monitors up to now. What is assigned is kept, and what is recorded afterwards comes behind it."""
        if not self.monitoring_active:
            return self._kept
        return self._kept + [each for each in self._history() if each["timestamp"] > self._since]

    @memory_history.setter
    def memory_history(self, history):
        self._kept, self._since = list(history), datetime.datetime.now().isoformat()

    def _say_warning(self, sentence):
        self._say(sentence, level=logging.WARNING)

    def _history(self):
        try:
            if self._recording.trace is None:
                return []
            window = self._recording.window()
            self._say(f"监控历史来自: {' '.join(window)}", level=logging.DEBUG)
            answer = _program.ask("timeline", *window)
        except GpumemError as error:
            self._say(f"实时监控出错: {error}", level=logging.ERROR)
            return []
        start, rows = answer["start_realtime_ns"], {}
        for device in answer["devices"]:
            total = device["capacity_bytes"] or 0
            for point in [*device["timeline"], {"time_ns": answer["to_ns"], **device["end"]}]:  # a point is the highest of its stretch of time; the end is as it is
                at = {"device_id": device["device"], "allocated_mb": point["allocated_bytes"] / MB, "reserved_mb": point["reserved_bytes"] / MB, "total_mb": total / MB}
                rows.setdefault(point["time_ns"], []).append({**at, "utilization_percent": point["allocated_bytes"] / total * 100 if total else 0.0})
        return [{"timestamp": datetime.datetime.fromtimestamp((start + time_ns) / 1e9).isoformat(), "gpu_memory": gpus} for time_ns, gpus in sorted(rows.items())][-MOST_HISTORY:]

    def _check_memory_anomalies(self, memory_info=None, threshold_mb=GROWTH_MB):
        """Warns of a GPU that is nearly full, and of one whose memory grew by more than threshold_mb while it was monitored. Returns the sentences."""
        found, history = [], self.memory_history
        for gpu in (memory_info or self.get_current_memory_usage())["gpu_memory"]:
            if gpu["utilization_percent"] > HIGH_UTILIZATION:
                found.append(watch.NEARLY_FULL.format(gpu["device_id"], gpu["utilization_percent"]))
            sizes = [row["allocated_mb"] for each in history for row in each["gpu_memory"] if row["device_id"] == gpu["device_id"]]
            if len(sizes) > 1 and sizes[-1] - sizes[0] > threshold_mb:
                found.append(watch.GREW.format(gpu["device_id"], sizes[-1] - sizes[0]))
        self._say(*found, level=logging.WARNING)
        return found

    def save_monitoring_history(self):
        if history := self.memory_history:
            self._say(f"监控历史已保存: {self._save('memory_history', history)}")

    # --- Reports ---

    def generate_memory_report(self, output_file=None):
        """The report as a text, which is also written to a file."""
        now, history = self.get_current_memory_usage(), self.memory_history
        system = now["system_memory"]
        lines = ["=" * 80, "内存使用报告", "=" * 80, f"生成时间: {now['timestamp']}", f"监控历史记录数: {len(history)}", f"检查点数量: {len(self.checkpoint_history)}", "", "当前内存状态:"]
        lines += [f"  GPU {gpu['device_id']}: {gpu['allocated_mb']:.2f} MB / {gpu['total_mb']:.2f} MB ({gpu['utilization_percent']:.1f}%)" for gpu in now["gpu_memory"]]
        lines += [f"系统内存: {system['used_gb']:.2f} GB / {system['total_gb']:.2f} GB ({system['percent']:.1f}%)", ""]
        for name, analysis in self.parameter_registry.items():
            summary = analysis["summary"]
            lines += [f"模型参数统计: {name}", f"    总参数: {summary['total_parameters']:,}", f"    可训练参数: {summary['trainable_parameters']:,}", f"    内存占用: {summary['total_memory_mb']:.2f} MB", ""]
        lines += ["检查点历史:"] if self.checkpoint_history else []
        for checkpoint in self.checkpoint_history[-5:]:
            lines += [f"  {checkpoint['name']} ({checkpoint['timestamp']})", *(f"    GPU {gpu['device_id']}: {gpu['allocated_mb']:.2f} MB" for gpu in checkpoint["memory_usage"]["gpu_memory"])]
        if len(history) > 1:
            pairs = zip(history[0]["gpu_memory"], history[-1]["gpu_memory"])
            lines += ["", "内存使用趋势:", *(f"  GPU {first['device_id']}: 变化 {last['allocated_mb'] - first['allocated_mb']:+.2f} MB" for first, last in pairs)]
        text, path = "\n".join(lines), output_file or self._file("memory_report", "txt")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        self._say(f"内存报告已保存: {path}")
        return text

    def generate_brief_memory_report(self, model, model_name="model", optimizer=None, stage="training"):
        """What base model, LoRA, gradients and optimizer state take; activations and the rest as the trace has them, else None."""
        report = self._report(model, model_name, optimizer, stage)
        self._say("=" * 60, f"简洁内存报告 - {stage}", "=" * 60, f"总内存占用: {report['total_memory_mb']:.2f} MB")
        known = [(part, row) for part, row in report["memory_breakdown"].items() if row["memory_mb"] is not None]
        for number, (part, row) in enumerate(sorted(known, key=lambda pair: -pair[1]["memory_mb"]), 1):
            self._say(f"  {number}. {PARTS[part]}: {row['memory_mb']:.2f} MB ({row['percentage']:.1f}%)")
        self._say(f"简洁报告已保存: {self._save(f'brief_memory_report_{stage}', report)}")
        return report

    def _report(self, model, model_name, optimizer, stage):
        rows = [(name, _cuda.bytes_of(parameter) / MB) for name, parameter in model.named_parameters()]
        parts = {"base_model": sum(size for name, size in rows if "lora" not in name.lower()), "lora_parameters": sum(size for name, size in rows if "lora" in name.lower())}
        parts.update(gradients=_cuda.gradients_mb(model), optimizer_states=_cuda.optimizer_mb(optimizer) if optimizer is not None else 0.0)
        parts["activations"] = self._category("activation", stage)
        now = self.get_current_memory_usage()
        allocated = sum(gpu["allocated_mb"] for gpu in now["gpu_memory"])
        on_gpu = any(parameter.is_cuda for parameter in model.parameters())
        total = allocated if on_gpu else sum(size for size in parts.values() if size)
        parts["other"] = max(0.0, total - sum(size for size in parts.values() if size))
        breakdown = {part: {"memory_mb": size, "percentage": size / total * 100 if size is not None and total else 0} for part, size in parts.items()}
        capacity = sum(gpu["total_mb"] for gpu in now["gpu_memory"])
        head = {"stage": stage, "model_name": model_name, "timestamp": datetime.datetime.now().isoformat(), "gpu_memory_status": now}
        return {**head, "memory_breakdown": breakdown, "total_memory_mb": total, "gpu_utilization_percentage": total / capacity * 100 if capacity else 0}

    def _category(self, category, stage):
        """MB of a category at this moment, as the trace has it; None where nothing is recorded."""
        name = f"report {stage} {time.time_ns()}"
        mark(name)
        try:
            trace = _program.own_trace()
            return _program.ask("at", name, "--top", 1, trace)["categories"][category] / MB if trace else None
        except GpumemError:
            return None

    def generate_detailed_memory_json_report(self, model, model_name="model", optimizer=None, stage="training"):
        """The brief report with parameters and gradients one by one; written as memory_report_STAGE_*.json and memory_summary_STAGE_*.json."""
        brief = self._report(model, model_name, optimizer, stage)
        analysis = _model_sizes.analyze_parameters(model, model_name)
        parts = {part: row["memory_mb"] for part, row in brief["memory_breakdown"].items()}
        details = {
            "parameters": {"total_memory_mb": analysis["summary"]["total_memory_mb"], **{key: analysis[key] for key in ("parameter_groups", "device_distribution", "summary")}},
            "gradients": {"total_memory_mb": parts["gradients"], **analysis["gradient_info"]},
            "optimizer": {"total_memory_mb": parts["optimizer_states"], "optimizer_type": type(optimizer).__name__ if optimizer is not None else None},
            "activations": {"total_memory_mb": parts["activations"], "notes": "gpumemshim at" if parts["activations"] is not None else "not recorded"},
            "other": {"total_memory_mb": parts["other"]},
        }
        components = {part: row["total_memory_mb"] for part, row in details.items()}
        capacity = sum(gpu["total_mb"] for gpu in brief["gpu_memory_status"]["gpu_memory"])
        shares = {part: (size or 0) / capacity * 100 if capacity else 0 for part, size in components.items()}
        report = {key: brief[key] for key in ("stage", "model_name", "timestamp", "gpu_memory_status")}
        report["memory_summary"] = {"total_memory_mb": brief["total_memory_mb"], "component_breakdown": components}
        report["occupancy_percentages"] = {"total_used_percentage": brief["gpu_utilization_percentage"], "component_percentages": shares}
        self._save(f"memory_summary_{stage}", report)
        self._say(f"JSON报告已保存: {self._save(f'memory_report_{stage}', {**report, 'detailed_memory_breakdown': details})}")
        return {**report, "detailed_memory_breakdown": details}

    def __enter__(self):
        if self.enable_real_time:
            self.start_real_time_monitoring()
        return self

    def __exit__(self, *_):
        self.stop_real_time_monitoring()
        self.generate_memory_report()


def create_memory_debugger(log_dir="logs/memory_debug", enable_real_time=True):
    return MemoryDebugger(log_dir=log_dir, enable_real_time=enable_real_time)


def debug_model_memory(model, model_name="model", log_dir="logs/memory_debug"):
    """What a model's parameters take (analyze_model_parameters)."""
    return MemoryDebugger(log_dir=log_dir, enable_real_time=False).analyze_model_parameters(model, model_name)


def monitor_training_memory(training_function, *args, **kwargs):
    """Calls a function between checkpoints training_start and training_end (training_error), and returns what it returned."""
    with create_memory_debugger() as debugger:
        debugger.create_memory_checkpoint("training_start")
        try:
            result = training_function(*args, **kwargs)
        except BaseException:
            debugger.create_memory_checkpoint("training_error")
            raise
        debugger.create_memory_checkpoint("training_end")
        return result
