# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""GPUMemoryProfiler: events by name, a log, a timeline, a summary, a JSON file.

    from gpumemshim.compat.memoryCheck import GPUMemoryProfiler

    profiler = GPUMemoryProfiler(log_dir="logs/my_training")
    profiler.record("模型创建")
    profiler.record("前向传播", f"loss={loss.item():.4f}")
    profiler.print_report()
    profiler.cleanup()
"""

import collections
import datetime
import json
import logging
import os
import time
import unicodedata

from gpumemshim._annotations import mark
from gpumemshim.compat import _cuda
from gpumemshim.compat._cuda import GB, MB
from gpumemshim.compat._logs import close_handlers, logger_of_tool

FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
NAME_WIDTH = 20


def padded(name):
    """With blanks up to NAME_WIDTH columns of a terminal, of which a Chinese character takes two."""
    columns = sum((unicodedata.east_asian_width(each) in "WF") + (unicodedata.combining(each) == 0) for each in name)
    return name + " " * max(0, NAME_WIDTH - columns)


class GPUMemoryProfiler:
    """Records what is allocated and reserved whenever record() is called, in MB of 1,048,576 bytes, of all GPUs together and of each.

    records: {event: [{"time", "allocated", "reserved", "max_allocated", "max_reserved", "timestamp", "gpu_details", ...}, ...]}; each key also as total_*.
    log_dir: folder of the log file and of save_to_json(). enable_file_logging: False says nothing but what print_report() prints.
    """

    def __init__(self, log_dir="logs/memory_profiler", enable_file_logging=True):
        self.records = collections.defaultdict(list)
        self.start_time = time.time()
        self.log_dir = log_dir
        self.enable_file_logging = enable_file_logging
        self.log_file, self.logger = None, None
        if enable_file_logging:
            self._open_log()

    def _open_log(self):
        os.makedirs(self.log_dir, exist_ok=True)
        stamp = datetime.datetime.now().strftime("%Y%m%d_%H%M%S")
        self.log_file = os.path.join(self.log_dir, f"memory_profiler_{stamp}.log")
        self.logger = logger_of_tool(f"MemoryProfiler_{stamp}")
        for handler in (logging.FileHandler(self.log_file, encoding="utf-8"), logging.StreamHandler()):
            handler.setFormatter(logging.Formatter(FORMAT, datefmt="%Y-%m-%d %H:%M:%S"))
            self.logger.addHandler(handler)
        gpus = _cuda.gpus()
        lines = ["=" * 80, "GPU内存分析器初始化", "=" * 80, f"日志文件: {self.log_file}", f"CUDA可用: {bool(gpus)}", f"GPU数量: {len(gpus)}"]
        for line in lines + [f"GPU {gpu.device}: {gpu.name} ({gpu.total / GB:.1f}GB)" for gpu in gpus]:
            self.logger.info(line)

    def _log(self, *lines):
        for line in lines:
            if self.logger is not None:
                self.logger.info(line)

    def record(self, event_name, additional_info=None):
        """Notes an event, with a free text if there is one."""
        gpus = _cuda.gpus()
        if not gpus:
            if self.logger is not None:
                self.logger.warning("CUDA不可用，无法记录GPU内存")
            return
        now = time.time()
        sums = {key: sum(getattr(gpu, key) for gpu in gpus) / MB for key in ("allocated", "reserved", "max_allocated", "max_reserved")}
        entry = {"time": now - self.start_time, **sums, **{f"total_{key}": value for key, value in sums.items()}}
        entry["timestamp"] = datetime.datetime.fromtimestamp(now).isoformat()
        entry["gpu_details"] = [self._details(gpu) for gpu in gpus]
        self.records[event_name].append(entry)
        mark(event_name, **({"info": additional_info} if additional_info else {}))
        line = "事件: {} | 分配: {allocated:6.1f}MB | 保留: {reserved:6.1f}MB | 最大分配: {max_allocated:6.1f}MB | 最大保留: {max_reserved:6.1f}MB | 耗时: {time:.2f}s"
        self._log(line.format(event_name, **entry) + (f" | 额外信息: {additional_info}" if additional_info else ""))
        if len(gpus) > 1:
            self._log(*(f"  GPU {gpu.device}: 分配={gpu.allocated / MB:7.1f}MB, 保留={gpu.reserved / MB:7.1f}MB, 利用率={gpu.utilization:5.1f}%, 可用={(gpu.total - gpu.reserved) / MB:7.1f}MB" for gpu in gpus))

    @staticmethod
    def _details(gpu):
        sizes = {key: getattr(gpu, key) / MB for key in ("allocated", "reserved", "max_allocated", "max_reserved")}
        return {"device_id": gpu.device, **sizes, "total_memory": gpu.total / MB, "free_memory": (gpu.total - gpu.reserved) / MB, "utilization_percent": gpu.utilization}

    def record_detailed(self, event_name, tensor_info=None, model_info=None):
        """As record(), with the tensors of a dict by name, and a dict of `total_params`, `trainable_params`, `model_size_mb`."""
        self.record(event_name)
        if tensor_info:
            self._log(f"张量信息 - {event_name}:")
            for name, tensor in tensor_info.items():
                if hasattr(tensor, "shape") and hasattr(tensor, "dtype"):
                    self._log(f"  {name}: shape={tensor.shape}, dtype={tensor.dtype}, size={_cuda.bytes_of(tensor) / MB:.2f}MB, device={tensor.device}")
        if model_info:
            self._log(f"模型信息 - {event_name}:")
            for key, text in (("total_params", "总参数: {:,}"), ("trainable_params", "可训练参数: {:,}"), ("model_size_mb", "模型大小: {:.2f}MB")):
                if key in model_info:
                    self._log("  " + text.format(model_info[key]))

    def print_report(self):
        """Prints the timeline: the last record of each event."""
        if not self.records:
            print("没有记录的内存数据")
            return
        lines = [f"{padded(event)} | Allocated: {entries[-1]['allocated']:6.1f}MB | Reserved: {entries[-1]['reserved']:6.1f}MB" for event, entries in self.records.items()]
        print("\n==== GPU Memory Timeline =====", *lines, sep="\n")
        self._log("=" * 80, "内存使用时间线报告", "=" * 80, *lines)

    def generate_summary_report(self):
        """The summary as a text: the peak and its event, growth from the first record to the last, averages of each event."""
        if not self.records:
            return "没有记录的内存数据"
        entries = sorted(((entry, event) for event, some in self.records.items() for entry in some), key=lambda pair: pair[0]["time"])
        first, last = entries[0][0], entries[-1][0]
        highest, event = max(entries, key=lambda pair: pair[0]["allocated"])
        lines = ["内存使用摘要报告", "================", "", "峰值内存使用:", f"  事件: {event}", f"  总分配内存: {highest['allocated']:.2f} MB", f"  总保留内存: {highest['reserved']:.2f} MB"]
        lines += [f"  两次记录之间的最大分配: {last['max_allocated']:.2f} MB"] if last["max_allocated"] > highest["allocated"] else []
        lines += ["", "内存增长:", f"  初始: {first['allocated']:.2f} MB", f"  最终: {last['allocated']:.2f} MB", f"  增长: {last['allocated'] - first['allocated']:.2f} MB", "", "峰值时各GPU使用情况:"]
        lines += [f"  GPU {gpu['device_id']}: 分配={gpu['allocated']:.2f}MB, 保留={gpu['reserved']:.2f}MB, 利用率={gpu['utilization_percent']:.1f}%" for gpu in highest["gpu_details"]]
        lines += ["", "事件统计:"]
        for name, some in self.records.items():
            means = [sum(entry[key] for entry in some) / len(some) for key in ("allocated", "reserved")]
            lines.append(f"  {name}: 平均总分配={means[0]:.2f}MB, 平均总保留={means[1]:.2f}MB")
        self._log("=" * 80, *lines)
        return "\n".join(lines) + "\n"

    def save_to_json(self, filepath=None):
        """Writes the records, by default to a file in log_dir, and returns its path."""
        if filepath is None:
            filepath = os.path.join(self.log_dir, f"memory_data_{datetime.datetime.now().strftime('%Y%m%d_%H%M%S')}.json")
        os.makedirs(os.path.dirname(filepath) or ".", exist_ok=True)
        with open(filepath, "w", encoding="utf-8") as out:
            json.dump(self.records, out, indent=2, ensure_ascii=False)
        self._log(f"内存数据已保存到: {filepath}")
        return filepath

    def cleanup(self):
        """Closes the log."""
        if self.logger is not None:
            self.logger.info("内存分析器清理完成")
            close_handlers(self.logger)
            self.logger = None
