# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The records of gpumemshim.compat.memory."""

import dataclasses
import enum
import typing


class OOMRiskLevel(enum.Enum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


@dataclasses.dataclass
class MemorySnapshot:
    """Memory of one GPU at one moment: all that the process has of CUDA, in bytes and in percent of the GPU."""

    timestamp: float
    device_id: int
    allocated: int
    reserved: int
    free: int
    total: int
    utilization: float
    fragmentation: float  # percent of what PyTorch reserved that it does not use
    process_info: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class OOMPrediction:
    """What is to be expected of one GPU. predicted_oom_time: seconds from now, or None where nothing says that it runs out."""

    device_id: int
    risk_level: OOMRiskLevel
    predicted_oom_time: typing.Optional[float]
    confidence: float  # 0 to 1
    current_usage: float  # percent
    trend_slope: float  # bytes a step
    recommended_actions: list = dataclasses.field(default_factory=list)
    cause: str = ""  # the line that grows, where one is known


@dataclasses.dataclass
class MemoryLeakEvent:
    """Growth of one GPU's memory since monitoring began. leak_rate: bytes an hour."""

    timestamp: float
    device_id: int
    leaked_memory: int
    leak_rate: float
    potential_sources: list = dataclasses.field(default_factory=list)
    stack_trace: typing.Optional[str] = None
    severity: str = "medium"
