# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import os
import types
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, TypeVar, Union, overload

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_Path = Union[str, os.PathLike[str]]
_Moment = Union[float, str]

__version__: str

class GpumemError(RuntimeError):
    code: Optional[int]

class Change(NamedTuple):
    name: str
    allocated_bytes: int
    freed_bytes: int
    error: str = ...
    @property
    def grown_bytes(self) -> int: ...

class LiveTensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int
    address: int
    shares: int
    requires_grad: bool
    holders: tuple[str, ...]
    chain: str = ...

class GradientStats(NamedTuple):
    name: str
    elements: int
    nan: int
    inf: int
    norm: float
    min: float
    max: float
    mean: float

class Table(list[dict[str, Any]]):
    @property
    def columns(self) -> list[str]: ...
    def to_pandas(self) -> Any: ...
    def to_arrow(self) -> Any: ...

class Peak(NamedTuple):
    device: int
    bytes: int
    reserved_bytes: int
    time_s: float
    step: Optional[int]
    categories: dict[str, int]
    lines: Table
    modules: Table

class Recording:
    name: str
    @property
    def trace(self) -> Optional[str]: ...
    @property
    def sizes(self) -> tuple[int, int, int]: ...
    @property
    def start_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def end_bytes(self) -> int: ...
    @property
    def grown_bytes(self) -> int: ...
    def report(self, *, device: Optional[int] = ...) -> dict[str, Any]: ...
    def peak(self, *, device: Optional[int] = ..., top: int = ...) -> Peak: ...
    def changes(self, *, device: Optional[int] = ...) -> dict[str, Any]: ...
    def html(self, output: _Path = ...) -> os.PathLike[str]: ...
    def picture(self, kind: str = ...) -> bytes: ...

class record:
    def __init__(
        self,
        output: Optional[_Path] = ...,
        *,
        name: Optional[str] = ...,
        tell: Optional[Callable[[Recording], object]] = ...,
        optional: bool = ...,
        keep: bool = ...,
    ) -> None: ...
    def __enter__(self) -> Recording: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None: ...
    def __call__(self, function: _F) -> _F: ...

class Forecast(NamedTuple):
    risk: str
    device: int
    sentence: str
    cause: str
    first: bool
    step: int
    earliest_s: float
    likely_s: float
    latest_s: Optional[float]
    bytes_per_step: float
    sure: Optional[float]

class ForecastWatch:
    failures: list[str]
    def stop(self) -> None: ...

class stage:
    name: str
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> stage: ...
    def __exit__(self, *_: object) -> None: ...
    def __call__(self, function: _F) -> _F: ...

_Trace = Union[_Path, Recording, None]

def attach(output: Optional[_Path] = ...) -> bool: ...
def mark(name: str, **fields: object) -> None: ...
def snapshot(name: str) -> None: ...
def step(number: Optional[int] = ...) -> None: ...
def tag(tensor: _T, name: str) -> _T: ...
def pause() -> None: ...
def resume() -> None: ...
def recording() -> bool: ...
def on_forecast(
    callback: Callable[[Forecast], object],
    *,
    risk: str = ...,
    interval: float = ...,
    pause: float = ...,
    timeout: float = ...,
) -> ForecastWatch: ...
def tensors(device: str = ...) -> list[LiveTensor]: ...
def gradients(model: Any = ...) -> list[GradientStats]: ...
@overload
def watch(function: _F, *, name: Optional[str] = ..., tell: Optional[Callable[[Change], object]] = ...) -> _F: ...
@overload
def watch(function: None = ..., *, name: Optional[str] = ..., tell: Optional[Callable[[Change], object]] = ...) -> Callable[[_F], _F]: ...
def report(trace: _Trace = ..., *, device: Optional[int] = ..., start: Optional[_Moment] = ..., end: Optional[_Moment] = ...) -> dict[str, Any]: ...
def peak(trace: _Trace = ..., *, device: Optional[int] = ..., start: Optional[_Moment] = ..., end: Optional[_Moment] = ..., top: int = ...) -> Peak: ...
def steps(trace: _Trace = ..., *, device: Optional[int] = ...) -> Table: ...
def leaks(trace: _Trace = ..., *, device: Optional[int] = ...) -> dict[str, Any]: ...
def diff(a: _Path, b: _Path, *, device: Optional[int] = ...) -> dict[str, Any]: ...
def sql(query: str, *traces: Union[_Path, Recording]) -> Table: ...
def html(trace: _Trace = ..., output: _Path = ...) -> os.PathLike[str]: ...
def load_ipython_extension(shell: Any) -> None: ...
