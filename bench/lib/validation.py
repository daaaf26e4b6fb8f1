# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Published measurements of GPU memory (bench/plan_validation_cases/*.toml) and what the simulated GPU says of the same configuration.

A file holds one `[source]` and its `[[case]]`s; what all cases of a source have in common stands in the source. A case is a script that
somebody could run on a GPU as it is; it ends with a line of JSON, PyTorch's own counters (counters.py).

    cases = validation.load()
    result = validation.run(cases[0], environment)   # Result(predicted=19.79, error=0.0011, ...)
"""

import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
import tomllib

import processes

CASES = processes.ROOT / "bench" / "plan_validation_cases"
REQUIREMENTS = [processes.ROOT / "scripts" / "requirements" / name for name in ("libraries.txt", "plan_validation.txt")]
UNITS = {"GB": 1e9, "GiB": 1024**3, "MB": 1e6, "MiB": 1024**2}
METRICS = {
    "max_allocated": "max allocated",
    "max_active": "max active",
    "max_reserved": "max reserved",
    "allocated": "allocated at the end",
    "reserved": "reserved at the end",
}
SHARED = ("script", "gpu", "torch", "metric", "unit", "packages")


class Malformed(Exception):
    """A file of cases says something else than it should."""


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    capability: int
    multiprocessors: int
    memory_mib: int

    def settings(self):
        return {
            "SIMCUDA_NAME": self.name,
            "SIMCUDA_CC": str(self.capability),
            "SIMCUDA_SMS": str(self.multiprocessors),
            "SIMCUDA_MEM_MB": str(self.memory_mib),
        }


@dataclasses.dataclass(frozen=True)
class Source:
    name: str
    address: str
    what: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Case:
    source: Source
    name: str
    what: str
    script: str
    gpu: Gpu
    torch: str
    metric: str
    unit: str
    published: float
    arguments: str = ""
    ranks: int = 1
    packages: tuple = ()
    slow: bool = False
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    case: Case
    predicted: float | None
    seconds: float
    host_rss: int = 0
    failure: str = ""

    @property
    def error(self):
        return None if self.predicted is None else self.predicted / self.case.published - 1


def gpus(folder=CASES):
    return {name: Gpu(**row) for name, row in tomllib.loads((folder / "gpus.toml").read_text()).items()}


def cases_of(path, known_gpus):
    """The cases of one file."""
    try:
        document = tomllib.loads(path.read_text())
        source = dict(document["source"])
        shared = {name: source.pop(name) for name in SHARED if name in source}
        reported = Source(**source)
        for row in document["case"]:
            row = {**shared, **row}
            row["packages"] = tuple(row.get("packages", ()))
            case = Case(source=reported, gpu=known_gpus[row.pop("gpu")], **row)
            if case.unit not in UNITS or case.metric not in METRICS or not case.published > 0:
                raise Malformed(f"{path.name}: {case.name}: unknown unit or metric, or nothing published")
            yield case
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise Malformed(f"{path.name}: {error!r}") from error


def load(folder=CASES):
    known = gpus(folder)
    cases = [case for path in sorted(folder.glob("*.toml")) if path.name != "gpus.toml" for case in cases_of(path, known)]
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise Malformed(f"two cases are named {name}")
    return cases


@dataclasses.dataclass
class Environment:
    """A Python with the libraries of the cases, below the build tree; libraries in other versions than its own lie beside it."""

    folder: pathlib.Path
    simcuda: pathlib.Path
    base: str

    @property
    def python(self):
        return str(self.folder / "bin" / "python")

    def site_packages(self):
        return next((self.folder / "lib").glob("python3*/site-packages"))

    def pip(self, *arguments):
        command = [self.base, "-m", "pip", *arguments[:-1], "install", "--no-deps", "--only-binary=:all:", "--no-input", "-q", *arguments[-1]]
        processes.run(command, timeout_s=1800)

    def install(self):
        """Only where the lists of what to install changed, or nothing is there."""
        wanted = "".join(path.read_text() for path in REQUIREMENTS)
        stamp = self.folder / "installed.txt"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        processes.run([self.base, "-m", "venv", "--without-pip", self.folder])
        others = processes.run([self.base, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        (self.site_packages() / "others.pth").write_text(f"{others}\n")
        self.pip("--python", self.python, [part for path in REQUIREMENTS for part in ("-r", str(path))])
        stamp.write_text(wanted)

    def package(self, requirement):
        """The folder of a library in a version of its own."""
        folder = self.folder / "packages" / requirement.replace("==", "-")
        if not folder.exists():
            self.pip(["--target", str(folder), requirement])
        return str(folder)


def command_of(case, environment):
    """How a case is started: the one place that knows."""
    return [str(processes.ROOT / "simcuda" / "run"), environment.python, str(CASES / case.script), *shlex.split(case.arguments)]


def fake_ranks(case, folder):
    """What makes one process rank 0 of several, as `gpumem plan --world-size` does."""
    if case.ranks == 1:
        return {}
    shutil.copy(processes.ROOT / "planner" / "launch" / "fake_ranks.py", pathlib.Path(folder) / "sitecustomize.py")
    return {
        "PYTHONPATH": str(folder),
        "GPUMEM_PLAN_FAKE_RANKS": "1",
        "SIMCUDA_NCCL_ALONE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(case.ranks),
        "LOCAL_WORLD_SIZE": str(min(case.ranks, 8)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }


def settings_of(case, environment, compiled):
    """`compiled` is an empty folder for what torch.compile and Triton keep: compiling allocates too, so it must not depend on what ran before."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "SIMCUDA_", "GPUMEMSHIM_", "PYTHON", "LD_PRELOAD"))}
    return {
        **clean,
        **case.gpu.settings(),
        "SIMCUDA_LIB": str(environment.simcuda),
        "PYTHONPATH": os.pathsep.join(environment.package(requirement) for requirement in case.packages),
        "PYTHONWARNINGS": "ignore",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "2",
        "TORCHINDUCTOR_CACHE_DIR": str(compiled),
        "TRITON_CACHE_DIR": str(pathlib.Path(compiled) / "triton"),
        **fake_ranks(case, compiled),
    }


def counters(output):
    """The last line that a case printed, as numbers."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise ValueError("it printed no counters")


def run(case, environment, timeout_s=600):
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="gpumem-compiled-") as compiled:
            done = subprocess.run(command_of(case, environment), env=settings_of(case, environment, compiled), capture_output=True, text=True,
                                  timeout=timeout_s, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
        reported = counters(done.stdout) if done.returncode == 0 else None
        failure = "" if reported else (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    except (subprocess.TimeoutExpired, ValueError, processes.Failure) as error:
        reported, failure = None, str(error).splitlines()[0]
    seconds = time.monotonic() - begin
    if not reported:
        return Result(case, None, seconds, failure=failure)
    return Result(case, reported[case.metric] / UNITS[case.unit], seconds, reported["host_rss"])


def median_error(results):
    """Of the absolute errors; None without any."""
    errors = [abs(result.error) for result in results if result.error is not None]
    return statistics.median(errors) if errors else None
