# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Published measurements of GPU memory (bench/plan_validation_cases/*.toml) and what the simulated GPU says of the same configuration.

A file holds one `[source]` and its `[[case]]`s; what all cases of a source have in common stands in the source. A case is a script that
somebody could run on a GPU as it is. It is started as users start theirs, by `gpumemshim plan --json`, and run to its end. Peaks are those that the
answer prints; what it does not print (memory at the end, a median of several peaks) are PyTorch's own counters at the script's end (counters.py).

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
SHARED = ("script", "gpu", "torch", "metric", "unit", "packages", "ranks", "processes", "allocator")


class Malformed(Exception):
    """A file of cases says something else than it should."""


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    device: str
    memory_mib: int
    capability: str = ""

    def flags(self):
        """What `gpumemshim plan` gets of it."""
        capability = ["--capability", self.capability] if self.capability else []
        return ["--device", self.device, "--memory", f"{self.memory_mib}MiB", *capability]


@dataclasses.dataclass(frozen=True)
class Source:
    name: str
    address: str
    what: str
    note: str = ""

    @property
    def project(self):
        """The repository's name, without its owner: copies are one project."""
        return "/".join(self.address.split("/")[4:5]) or self.address


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
    ranks: int = 1  # of which one process simulates the first
    processes: int = 1  # that torchrun starts
    packages: tuple = ()
    allocator: str = ""  # PYTORCH_CUDA_ALLOC_CONF
    slow: bool = False
    why: str = ""
    decimals: int | None = None  # of a number that the file gives as a string ("60.0"), as a TOML number keeps no trailing zero

    @property
    def digits(self):
        """Behind the point, as many as the source gave; of giga two at least, unless the file says how many (2.90 GB)."""
        if self.decimals is not None:
            return self.decimals
        return max(len(f"{self.published:.10g}".partition(".")[2]), 2 if self.unit.startswith("G") else 0)


@dataclasses.dataclass(frozen=True)
class Range:
    """What plan printed, in bytes of nvidia-smi's number. `context` is the part that is open about CUDA's context alone, below and above."""

    low: int
    likely: int
    high: int
    bounded: bool
    context: tuple = (0, 0)

    @property
    def width(self):
        return (self.high - self.low) / self.likely

    def holds(self, off, without_context=False, rounding=0.0):
        """Whether a number that differs by `off` bytes from the predicted one is in it; where there is no upper end, only the lower counts."""
        less, more = self.context if without_context else (0, 0)
        at = self.likely + off
        return at >= self.low + less - rounding and (not self.bounded or at <= self.high - more + rounding)


@dataclasses.dataclass(frozen=True)
class Result:
    case: Case
    predicted: float | None
    seconds: float
    host_rss: int = 0
    failure: str = ""
    range: Range | None = None

    def held(self, without_context=False):
        """Whether the published number is in the printed range, less what the metric does not count; None without a range."""
        if self.range is None or self.predicted is None:
            return None
        unit = UNITS[self.case.unit]
        return self.range.holds((self.case.published - self.predicted) * unit, without_context, rounding=0.5 * 10**-self.case.digits * unit)

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
            if isinstance(row["published"], str):
                row["decimals"] = len(row["published"].partition(".")[2])
                row["published"] = float(row["published"])
            case = Case(source=reported, gpu=known_gpus[row.pop("gpu")], **row)
            if case.unit not in UNITS or case.metric not in METRICS or not case.published > 0:
                raise Malformed(f"{path.name}: {case.name}: unknown unit or metric, or nothing published")
            yield case
    except (KeyError, TypeError, ValueError) as error:
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
    gpumem: pathlib.Path
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


def command_of(case, environment, trace):
    """How a case is started: the one place that knows."""
    ranks = [] if case.ranks == 1 else ["--world-size", str(case.ranks)]
    if case.processes > 1:
        ranks = ["--nproc-per-node", str(case.processes)]
    plan = [str(environment.gpumem), "plan", "--json", "--no-what-if", "--steps", "all", "--timeout", "500", "-o", str(trace)]
    return [*plan, *case.gpu.flags(), *ranks, "--", environment.python, str(CASES / case.script), *shlex.split(case.arguments)]


def settings_of(case, environment, compiled):
    """`compiled` is an empty folder for what torch.compile and Triton keep: compiling allocates too, so it must not depend on what ran before."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "SIMCUDA_", "GPUMEMSHIM_", "PYTHON", "LD_PRELOAD"))}
    return {
        **clean,
        **({"PYTORCH_CUDA_ALLOC_CONF": case.allocator} if case.allocator else {}),
        "PYTHONPATH": os.pathsep.join(environment.package(requirement) for requirement in case.packages),
        "PYTHONWARNINGS": "ignore",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "2",
        "TORCHINDUCTOR_CACHE_DIR": str(compiled),
        "TRITON_CACHE_DIR": str(pathlib.Path(compiled) / "triton"),
        "GPUMEMSHIM_CASE_COUNTERS": str(pathlib.Path(compiled) / "counters.json"),
    }


def range_of(answer):
    """What a plan prints as its range, from its JSON."""
    printed = answer["range"]
    context = [doubt for doubt in answer["doubts"] if doubt["kind"] == "context"]
    return Range(
        printed["low_bytes"],
        printed["likely_bytes"],
        printed["high_bytes"],
        printed["bounded"],
        (sum(doubt["less_bytes"] for doubt in context), sum(doubt["more_bytes"] for doubt in context)),
    )


def bytes_of(metric, answer, reported):
    """The metric: a peak as plan's answer prints it, unless the source read its counter at another moment; else the script's own counter."""
    printed = {"max_allocated": "allocated_bytes", "max_reserved": "reserved_bytes"}
    if metric in printed and metric not in reported["overridden"]:
        return answer["peak"][printed[metric]]
    return reported[metric]


def answered(case, done, folder, seconds):
    """The result of a plan that came to an end."""
    try:
        answer = json.loads(done.stdout)
        reported = json.loads((pathlib.Path(folder) / "counters.json").read_text())
        predicted = bytes_of(case.metric, answer, reported) / UNITS[case.unit]
    except (OSError, KeyError, TypeError, ValueError) as error:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}, {error!r}"]
        return Result(case, None, seconds, failure=said[-1])
    return Result(case, predicted, seconds, reported["host_rss"], range=range_of(answer))


def run(case, environment, timeout_s=1500):
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="gpumemshim-compiled-") as folder:
            command = command_of(case, environment, pathlib.Path(folder) / "plan.gmtrace")
            done = subprocess.run(command, env=settings_of(case, environment, folder), capture_output=True, text=True, timeout=timeout_s,
                                  stdin=subprocess.DEVNULL, check=False)  # fmt: skip
            return answered(case, done, folder, time.monotonic() - begin)
    except (subprocess.TimeoutExpired, processes.Failure) as error:
        return Result(case, None, time.monotonic() - begin, failure=str(error).splitlines()[0])


def asked_of(case):
    """What decides a case's prediction, but for the text of its script."""
    return [case.script, case.arguments, case.gpu.name, case.metric, case.allocator, *case.packages]


def keep(path, result):
    """Adds a result to a file, so that a later call need not run its case again."""
    row = {**dataclasses.asdict(result), "case": result.case.name, "asked": asked_of(result.case)}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def kept(path, cases):
    """Results of an earlier call by name of their case; those that failed, or whose case is another one now, are run again."""
    found, by_name = {}, {case.name: case for case in cases}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        case = by_name.get(row["case"])
        if case is None or row["failure"] or row.get("asked", asked_of(case)) != asked_of(case):
            continue
        printed = Range(**{**row["range"], "context": tuple(row["range"]["context"])})
        found[case.name] = Result(case, row["predicted"], row["seconds"], row["host_rss"], range=printed)
    return found


def median_error(results):
    """Of the absolute errors; None without any."""
    errors = [abs(result.error) for result in results if result.error is not None]
    return statistics.median(errors) if errors else None
