# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The numbers of gpumemshim.compat.memory, each asked of gpumemshim. `window` is a list of arguments that names a trace and a part of it."""

import collections
import dataclasses
import datetime
import json
import math
import time

from gpumemshim import _program
from gpumemshim._error import GpumemError
from gpumemshim.compat._cuda import GB, MB
from gpumemshim.compat._memory_types import MemoryLeakEvent, MemorySnapshot, OOMPrediction, OOMRiskLevel

CRITICAL_PERCENT, SEVERE_FACTOR, SOURCES = 95.0, 2, 5
ACTIONS = {
    OOMRiskLevel.LOW: [],
    OOMRiskLevel.MEDIUM: ["监控内存使用趋势"],
    OOMRiskLevel.HIGH: ["准备释放缓存", "考虑减少batch size"],
    OOMRiskLevel.CRITICAL: ["立即释放缓存: torch.cuda.empty_cache()", "减少batch size", "检查是否有内存泄漏"],
}


def snapshots_of(window):
    """{GPU: [MemorySnapshot, ...]}: what gpumemshim timeline has: the highest of each stretch of time, and the end."""
    answer, found = _program.ask("timeline", *window), collections.defaultdict(list)
    began = answer["start_realtime_ns"]
    for device in answer["devices"]:
        total = device["capacity_bytes"] or 0
        for point in [*device["timeline"], {"time_ns": answer["to_ns"], **device["end"]}]:
            used, reserved = point["total_bytes"], point["reserved_bytes"]
            unused = (reserved - point["allocated_bytes"]) / reserved * 100 if reserved else 0.0
            share = used / total * 100 if total else math.nan
            found[device["device"]].append(MemorySnapshot((began + point["time_ns"]) / 1e9, device["device"], used, reserved, max(0, total - used), total, share, unused, {"pid": answer["process"]["pid"]}))
    return dict(found)


def status_of(window, is_chosen=lambda device: True):
    """The status report as `gpumemshim export tinytorch-status` writes it, with what the tool's own report has beyond: min_utilization, fragmentation."""
    report = json.loads(_program.run("export", "tinytorch-status", *window))
    snapshots = snapshots_of(window)
    devices = {int(device): row for device, row in report["devices"].items() if is_chosen(int(device))}
    for device, row in devices.items():
        shares = [each.utilization for each in snapshots.get(device, [])] or [row["current_usage"]["utilization_percent"]]
        row["device_id"] = device
        row["statistics"]["min_utilization"] = min(shares)
        row["fragmentation"] = snapshots[device][-1].fragmentation if device in snapshots else 0.0
    return {**report, "devices": devices, "summary": summary_of(devices)}


def summary_of(devices):
    """The summary of a status report's devices."""
    total, used = (sum(row["current_usage"][key] or 0 for row in devices.values()) for key in ("total", "allocated"))
    return {"total_devices": len(devices), "total_memory_gb": total / GB, "total_used_gb": used / GB, "overall_utilization": used / total * 100 if total else 0}


def forecast_of(window):
    """What gpumemshim forecast --json says of the whole trace, since growth needs its history; {} where it cannot."""
    try:
        return _program.ask("forecast", window[-1])
    except GpumemError:
        return {}


def predictions_of(window, threshold):
    """[OOMPrediction, ...] of the GPUs of a trace."""
    forecast, found = forecast_of(window), []
    for device, rows in snapshots_of(window).items():
        of_device = forecast if forecast.get("device") == device else {}
        found.append(prediction_of(device, rows[-1].utilization, threshold, of_device))
    return found


def prediction_of(device, usage, threshold, forecast):
    """usage and threshold in percent; forecast: as gpumemshim says it of this GPU, or {}."""
    reaches = forecast.get("kind") == "reaches"
    risk = forecast.get("risk")
    if usage > CRITICAL_PERCENT or (reaches and risk == "critical"):
        level = OOMRiskLevel.CRITICAL
    elif reaches and (risk == "high" or usage > threshold):
        level = OOMRiskLevel.HIGH
    elif usage > threshold or reaches:
        level = OOMRiskLevel.MEDIUM
    else:
        level = OOMRiskLevel.LOW
    seconds = forecast["likely_steps"] * forecast["step_ns"] / 1e9 if reaches else None
    confidence = forecast.get("range_share") or forecast.get("confidence") or 0.0 if reaches else 1.0 if usage > CRITICAL_PERCENT else 0.0
    return OOMPrediction(device, level, seconds, confidence, usage, forecast.get("bytes_per_step") or 0.0, list(ACTIONS[level]), forecast.get("cause") or "")


def prediction_of_warning(forecast, usage, threshold):
    """The same of a warning: what gpumemshim.on_forecast calls with."""
    said = {"kind": "reaches", "risk": forecast.risk, "likely_steps": forecast.likely_s, "step_ns": 1e9, "range_share": forecast.sure}
    return prediction_of(forecast.device, usage, threshold, {**said, "bytes_per_step": forecast.bytes_per_step, "cause": forecast.cause})


def risks_of(predictions):
    """The risk report: {"timestamp", "predictions": one object a GPU, "summary": how many GPUs have which level}."""
    rows = [{**dataclasses.asdict(each), "risk_level": each.risk_level.value} for each in predictions]
    counts = collections.Counter(row["risk_level"] for row in rows)
    return {"timestamp": datetime.datetime.now().isoformat(), "predictions": rows, "summary": {level.value: counts[level.value] for level in OOMRiskLevel}}


def print_warning(prediction):
    """The tool's warning; the line that grows is added where it is known."""
    print(f"[WARNING] OOM警告: GPU {prediction.device_id}")
    print(f"   风险等级: {prediction.risk_level.value}")
    print(f"   当前使用率: {prediction.current_usage:.1f}%")
    if prediction.predicted_oom_time is not None:
        print(f"   预测OOM时间: {prediction.predicted_oom_time:.1f}秒后")
        print(f"   置信度: {prediction.confidence:.2f}")
    if prediction.cause:
        print(f"   原因: {prediction.cause}")
    for action in prediction.recommended_actions:
        print(f"   建议: {action}")


def growth_of(recording, threshold, seconds):
    """([MemoryLeakEvent, ...], whether growth could be judged): GPUs on which lines keep more from step to step, together more than threshold bytes.

    What a program holds and does not add to, as its model, is no leak; without anything that repeats nothing is known.
    """
    answer, found = _program.ask("leaks", *recording.window()), []
    for device in answer["devices"]:
        rows = [row for row in device["leaks"] if row["status"] == "growing"]
        grown = sum(row["grown_bytes"] for row in rows)
        if grown <= threshold:
            continue
        sources = [f"{row['site']}: +{row['grown_bytes'] / MB:.1f} MB" for row in rows][:SOURCES]
        severity = "high" if grown > threshold * SEVERE_FACTOR else "medium"
        found.append(MemoryLeakEvent(time.time(), device["device"], grown, grown / max(seconds, 1e-9) * 3600, sources or ["未知"], None, severity))
    return found, bool(answer.get("leak_loops"))
