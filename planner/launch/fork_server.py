# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs one Python program many times over (`gpumemshim sweep`): imports once what it imports, then forks a process for each run.

CUDA is untouched before the fork, so each run begins as a fresh process does: the recorder, the driver and PyTorch's allocator start in it.
The program is not changed and not imported here: of its own folder nothing is loaded before the fork, for such modules may look at the command line.

    GPUMEMSHIM_SWEEP_CHANNEL  number of a socket: a JSON object a line
    GPUMEMSHIM_SWEEP_PROGRAM  JSON: {"script": "/x/train.py"} or {"module": "pkg.train"}, {"skip": [names not to import before the fork]}

    <- {"id": 1, "arguments": [..], "environment": {..}, "folder": "..", "input": "", "directory": "..", "timeout": 300}  run it; its output goes to folder/output
    -> {"ready": seconds}                         imports are done
    -> {"unfit": "name", "why": "threads"}        importing `name` did what must not be done before a fork; this server is of no use
    -> {"id": 1, "pid": 77}                       it runs, in a process group of its own
    -> {"id": 1, "status": 0, "rss_kib": 812345}  it ended, as waitpid(2) has it
"""

import ast
import ctypes
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import sysconfig
import time
import types

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.01
# Parts that start helpers or threads when they are loaded, or that look at what was loaded before them.
NEVER = ("torch._inductor", "torch.testing", "triton.runtime", "multiprocessing.", "__main__", "__mp_main__", "sitecustomize", "usercustomize", "antigravity", "this")


class Unfit(Exception):
    pass


# What the program imports.


def installed_folders():
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
    return tuple(os.path.realpath(folder) + os.sep for folder in folders if folder)


def is_installed(name):
    """Whether a top-level module is the standard library's or an installed package's."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None:
        return False
    places = [spec.origin] if spec.origin not in (None, "built-in", "frozen") else list(spec.submodule_search_locations or [])
    return not places or any(os.path.realpath(place).startswith(installed_folders()) for place in places)


def outer_statements(body):
    """Statements that run when a module is loaded: not those of functions."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, (ast.If, ast.Try, ast.With)):
            if isinstance(statement, ast.If) and "__main__" in ast.dump(statement.test):
                continue
            for part in ("body", "orelse", "finalbody"):
                yield from outer_statements(getattr(statement, part, []))


def local_file(name, folder):
    for place in (os.path.join(folder, *name.split(".")) + ".py", os.path.join(folder, *name.split("."), "__init__.py")):
        if os.path.isfile(place):
            return place
    return None


def imports_of(path, folder, seen):
    """Import statements of a script, and of the modules of its own that it imports, in the order in which they would run."""
    if path in seen:
        return
    seen.add(path)
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return
    for statement in outer_statements(tree.body):
        names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
        for name in names:
            own = local_file(name, folder) if not getattr(statement, "level", 0) else None
            if own:
                yield from imports_of(own, folder, seen)
            elif name and not getattr(statement, "level", 0) and is_installed(name.split(".")[0]):
                yield name, [alias.name for alias in statement.names] if isinstance(statement, ast.ImportFrom) else []


# What libraries ask of the device when they are loaded.


def in_a_child(function, arguments):
    """The answer of a function that uses CUDA, as JSON has it, without using it here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.environ["GPUMEMSHIM_DISABLE"] = "1"
            answer = function(*arguments)
            if not isinstance(answer, (int, str, tuple)):  # a struct
                answer = {name: value for name in dir(answer) if not name.startswith("_") and isinstance(value := getattr(answer, name), (int, str))}
            os.write(writer, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    answer = json.loads(text)
    return types.SimpleNamespace(**answer) if isinstance(answer, dict) else tuple(answer) if isinstance(answer, list) else answer


class AskedElsewhere:
    """While it lasts, PyTorch's questions about the device are answered by other processes: after cuInit nothing could be forked. Whoever kept such a function (Inductor
    does) has the real one after that."""

    NAMES = ("get_device_capability", "get_device_properties", "get_device_name")

    def asked(self, function):
        def ask(device=None):
            return in_a_child(function, () if device is None else (getattr(device, "idx", device),)) if self.lasts else function(device)

        return ask

    def __enter__(self):
        self.lasts = True
        self.module = importlib.import_module("torch.cuda") if is_installed("torch") else None
        self.real = {name: getattr(self.module, name) for name in self.NAMES if self.module}
        for name, function in self.real.items():
            setattr(self.module, name, self.asked(function))
        self.nvml = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

    def __exit__(self, *_):
        self.lasts = False
        for name, function in self.real.items():
            setattr(self.module, name, function)
        if self.nvml is None:
            del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
        else:
            os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = self.nvml


class Server:
    def __init__(self, channel, program):
        self.channel, self.program = channel, program
        self.skip = tuple(program.get("skip", []))
        self.jobs, self.buffer, self.rings = {}, b"", os.environ.get("GPUMEMSHIM_RING_DIRECTORY", "")

    def tell(self, **words):
        self.channel.sendall(json.dumps(words).encode() + b"\n")

    # Imports.

    def check(self, name):
        if self.rings and os.path.isdir(self.rings) and any(entry.endswith(".ring") for entry in os.listdir(self.rings)):
            raise Unfit(name, "it uses CUDA when it is loaded")
        threading = sys.modules.get("threading")
        if threading is not None and threading.active_count() > 1:
            raise Unfit(name, "it starts threads when it is loaded")
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            if set(map(int, file.read().split())) - set(self.jobs):
                raise Unfit(name, "it starts processes when it is loaded")

    def load(self, name, members=()):
        if any(name == skipped or name.startswith(skipped + ".") for skipped in self.skip) or name.startswith(NEVER):
            return
        try:
            __import__(name, {}, {}, list(members) or ["__name__"])
        except Exception:  # noqa: S110: the program will say so itself, if it gets there
            pass
        self.check(name)

    def load_program(self):
        script = self.program.get("script")
        if script is None:
            spec = importlib.util.find_spec(self.program["module"].split(".")[0])
            folder = os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else ""
            script = local_file(self.program["module"], folder) or local_file(self.program["module"] + ".__main__", folder)
        for name, members in imports_of(script, os.path.dirname(script), set()) if script else ():
            self.load(name, members)

    def load_learned(self, folder, pid):
        """What a run had loaded by its end: the next ones will want it as well."""
        place = os.path.join(folder, f"{pid}.modules")
        try:
            with open(place, encoding="utf-8") as file:
                modules = json.load(file)
        except (OSError, ValueError):
            return
        folders = installed_folders()
        try:
            with AskedElsewhere():
                for name, path in modules:
                    if name not in sys.modules and os.path.realpath(path).startswith(folders):
                        self.load(name)
        except Unfit as unfit:  # what runs may go on; the next ones need another server
            self.tell(unfit=unfit.args[0], why=unfit.args[1])

    # Runs.

    def start(self, job):
        sys.stdout.flush()
        sys.stderr.flush()
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.become(job, own)
            return job
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass
        self.jobs[pid] = job
        self.tell(id=job["id"], pid=pid)
        return None

    def become(self, job, parent):
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        self.channel.close()
        output = os.open(os.path.join(job["folder"], "output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        if job.get("input"):  # standard input; else the server's own, which is empty
            given = os.open(job["input"], os.O_RDONLY)
            os.dup2(given, 0)
            os.close(given)
        for name, value in job["environment"].items():
            if value:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)
        interpreter = getattr(sys, "orig_argv", [sys.executable, ""])[:-1]
        words = [*interpreter, *([self.program["shown"]] if "shown" in self.program else ["-m", self.program["module"]]), *job["arguments"]]
        wanted = os.environ.get("GPUMEMSHIM_COMMAND_LINE", "")
        if ":" in wanted or wanted.lower() in ("", "1", "true", "yes", "on"):
            os.environ["GPUMEMSHIM_COMMAND_LINE"] = f"{os.getpid()}:" + "\x1f".join(words)  # what the trace is to bear the name of
        os.environ["GPUMEMSHIM_PLAN_DEADLINE"] = str(time.clock_gettime(time.CLOCK_MONOTONIC) + job["timeout"])
        os.chdir(job["directory"])

    def collect(self):
        for pid in list(self.jobs):
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended == 0:
                continue
            job = self.jobs.pop(pid)
            try:
                os.killpg(pid, signal.SIGKILL)  # what it left behind
            except OSError:
                pass
            self.tell(id=job["id"], status=status, rss_kib=usage.ru_maxrss)
            self.load_learned(job["folder"], pid)

    def next_jobs(self, wait):
        readable, _, _ = select.select([self.channel], [], [], wait)
        if not readable:
            return []
        data = self.channel.recv(1 << 16)
        if not data:
            sys.exit(0)  # PR_SET_PDEATHSIG ends what still runs
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def serve(self):
        """Returns in a forked process: what it is to run."""
        while True:
            for job in self.next_jobs(POLL_SECONDS if self.jobs else None):
                forked = self.start(job)
                if forked is not None:
                    return forked
            self.collect()


def begin():
    channel = socket.socket(fileno=int(os.environ.pop("GPUMEMSHIM_SWEEP_CHANNEL")))
    server = Server(channel, json.loads(os.environ.pop("GPUMEMSHIM_SWEEP_PROGRAM")))
    sys.path[:] = [path for path in sys.path if os.path.realpath(path or os.curdir) != os.path.dirname(os.path.realpath(__file__))]
    started = time.monotonic()
    try:
        with AskedElsewhere():
            server.load_program()
        server.tell(ready=time.monotonic() - started)
        return server.program, server.serve()
    except Unfit as unfit:
        server.tell(unfit=unfit.args[0], why=unfit.args[1])
        sys.exit(0)


def run_script(path, arguments):
    """As `python path arguments` does."""
    main = type(sys)("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    return code, main.__dict__


def run_module(name, arguments):
    """As `python -m name arguments` does."""
    import runpy

    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.getcwd())
    sys.argv = [name, *arguments]
    runpy._run_module_as_main(name)


if __name__ == "__main__":
    program, job = begin()
    if "script" in program:
        exec(*run_script(program["shown"], job["arguments"]))
    else:
        run_module(program["module"], job["arguments"])
