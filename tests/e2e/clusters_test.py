# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The lines of docs/clusters.md, taken from there and run as they are: torchrun and a stub of srun each day; with --full the real Slurm of one node (Debian's,
unpacked by scripts/bootstrap --all) and Ray Train's workers (scripts/requirements/ray.txt).

    python tests/e2e/clusters_test.py --build build/release [--full] [--keep]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import libraries_test
import truth

sys.path.insert(0, str(truth.ROOT / "scripts" / "lib"))
import debian_tools  # noqa: E402

SETUP = None
KEEP = False
RANK = truth.PROGRAMS / "cluster_rank.py"
RANKS = 2
WAIT_S = 300
# Stands where srun does: each task with the variables that Slurm's manual promises.
SRUN = """#!/bin/sh
export SLURM_JOB_ID SLURM_NTASKS={ranks}
if [ "$1" = --ntasks ]; then
  shift 4
  exec "$@"
fi
for task in {tasks}; do SLURM_PROCID=$task SLURM_LOCALID=$task "$@" || exit; done
"""
SLURM = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
PluginDir={plugins}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores}
PartitionName=all Nodes={host} Default=YES State=UP
"""
RAY = """
import json, pathlib, sys
{snippet}
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

def train():
    import ctypes, os, runpy
    runpy.run_path({program!r}, run_name="__main__")

trainer = TorchTrainer(train, scaling_config=ScalingConfig(num_workers={ranks}, resources_per_worker={{"CPU": 1}}), run_config=RunConfig(storage_path={storage!r}))
trainer.fit()
ray.shutdown()
"""


def block(heading, language="sh", number=0):
    """A block of a section of docs/clusters.md."""
    text = (truth.ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## )", text, re.M | re.S)[1]
    return re.findall(rf"```{language}\n(.*?)```", section, re.S)[number]


def replaced(text, **words):
    """`text` with each word replaced, all of which it must have."""
    for word, other in words.items():
        if word not in text:
            raise AssertionError(f"docs/clusters.md no longer says {word!r}: {text}")
        text = text.replace(word, str(other))
    return text


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ClustersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-clusters-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(RANK, self.folder / "train.py")
        (self.folder / "bin").mkdir()
        self.program("python", f'exec {truth.ROOT}/simcuda/run {SETUP.python} "$@"')
        self.program("torchrun", f'exec {truth.ROOT}/simcuda/run {SETUP.python} -m torch.distributed.run "$@"')
        (self.folder / "bin" / "gpumemshim").symlink_to(SETUP.gpumem)
        self.environment = {**truth.environment_of(truth.Case("none", devices=RANKS), SETUP), "OMP_NUM_THREADS": "1"}
        self.environment["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{self.environment['PATH']}"

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run_lines(self, lines, **more):
        (self.folder / "lines.sh").write_text(lines)
        done = subprocess.run(["sh", "-e", "lines.sh"], cwd=self.folder, env={**self.environment, **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def check_traces(self, folder, job=None):
        """Each rank left a trace of this job, with what it allocated."""
        done = subprocess.run([SETUP.gpumem, "ranks", "--json", str(folder)], env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["expected_ranks"], said["present_ranks"]), (RANKS, RANKS), said)
        self.assertEqual([rank["rank"] for rank in said["ranks"]], list(range(RANKS)))
        if job is not None:
            self.assertEqual(said["job_id"], job)

    def copying_script(self):
        lines = replaced(block("Slurm", number=1), **{"/shared/runs": self.folder / "shared", "/local": self.folder / "local", "python train.py": f"python {self.folder}/train.py"})
        return f"#!/bin/sh\n#SBATCH --ntasks-per-node={RANKS}\n{lines}"

    def check_copies(self, job, said):
        self.assertEqual(said.count("copied"), 1, said)  # once a node
        names = [sorted(path.name for path in (self.folder / place / job).iterdir()) for place in ("local", "shared")]
        self.assertEqual(*names)
        self.check_traces(self.folder / "shared" / job, job)

    def batch_script(self):
        return replaced(block("Slurm"), **{"/shared/runs": self.folder / "runs", "--ntasks-per-node=8": f"--ntasks-per-node={RANKS}", "python train.py": f"python {self.folder}/train.py"})

    def test_torchrun(self):
        lines = [line for line in block("torchrun").splitlines(keepends=True) if "live" not in line]
        said = self.run_lines(replaced("".join(lines), **{"--nproc-per-node 8": f"--nproc-per-node {RANKS}"}))
        self.assertIn(f"{RANKS} of {RANKS} ranks on 1 host", said)
        self.check_traces(self.folder / "runs")

    def test_slurms_variables(self):
        self.program("srun", SRUN.format(ranks=RANKS, tasks=" ".join(map(str, range(RANKS)))))
        said = self.run_lines(self.batch_script(), SLURM_JOB_ID="4242")
        self.assertIn("job 4242", said)
        self.check_traces(self.folder / "runs" / "4242", "4242")
        self.check_copies("4242", self.run_lines(self.copying_script(), SLURM_JOB_ID="4242", SLURM_NNODES="1"))

    def test_upload(self):
        """The line for object stores, into a folder in place of a bucket, which unlike a bucket must be there."""
        line = re.search(r'^    (python -c "import fsspec.*)$', (truth.ROOT / "docs" / "clusters.md").read_text(encoding="utf-8"), re.M)[1]
        (self.folder / "runs").mkdir()
        (self.folder / "bucket" / "4242").mkdir(parents=True)
        for name in ("a.r0.gmtrace", "a.r0.gmtrace.summary", "a.r1.gmtrace"):
            (self.folder / "runs" / name).write_text(name)
        self.run_lines(replaced(line, **{"'s3'": "'file'", "bucket/runs/4242/": f"{self.folder}/bucket/4242/", "'/runs/": f"'{self.folder}/runs/"}))
        self.assertEqual({path.name: path.read_text() for path in (self.folder / "bucket" / "4242").iterdir()}, {path.name: path.name for path in (self.folder / "runs").iterdir()})

    # --- --full ---------------------------------------------------------------------------------------------------------------------------

    def start_slurm(self):
        """slurmctld and slurmd of one node, of this user, without authentication, on ports of 127.0.0.1 alone; the environment of its clients."""
        place = debian_tools.UNPACKED
        if debian_tools.tool("slurmd", "slurmd-wlm") is None:
            self.skipTest("no Slurm. Run scripts/bootstrap --all")
        libraries = [path for name in ("slurm-wlm-basic-plugins", "libmunge2", "libhwloc15") for path in (place / name).glob("usr/lib/*-linux-gnu")]
        plugins = next(path for path in (place / "slurm-wlm-basic-plugins").glob("usr/lib/*/slurm-wlm"))
        home = self.folder / "slurm"
        for name in ("state", "spool"):
            (home / name).mkdir(parents=True)
        (home / "cgroup.conf").touch()
        host = socket.gethostname().partition(".")[0]
        user = "root" if os.getuid() == 0 else os.environ["USER"]
        (home / "slurm.conf").write_text(SLURM.format(host=host, user=user, plugins=plugins, ports=free_ports(2), folder=home, cores=max(RANKS, len(os.sched_getaffinity(0)))))
        environment = {**self.environment, "SLURM_CONF": str(home / "slurm.conf"), "LD_LIBRARY_PATH": os.pathsep.join(map(str, [*libraries, plugins]))}
        stepd = debian_tools.tool("slurmd", "slurmstepd-wlm")
        for command in ((debian_tools.tool("slurmctld", "slurmctld-wlm"), "-D"), (debian_tools.tool("slurmd", "slurmd-wlm"), "-D", "-N", host, "-d", stepd)):
            with open(home / f"{pathlib.Path(command[0]).name}.log", "wb") as log:
                process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.send_signal, signal.SIGTERM)
        environment["PATH"] = f"{environment['PATH']}{os.pathsep}{pathlib.Path(debian_tools.tool('slurm-client', 'sbatch')).parent}"
        until = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h"], env=environment, capture_output=True, text=True, check=False).stdout:
            self.assertLess(time.monotonic(), until, "".join(path.read_text() for path in home.glob("*.log")))
            time.sleep(0.2)
        return environment

    def submit(self, script, environment):
        """The job's number, and what it printed."""
        (self.folder / "job.sh").write_text(script)
        done = subprocess.run(["sbatch", "--wait", "--parsable", "--output", "%j.out", "job.sh"], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
        job = done.stdout.strip()
        out = self.folder / f"{job}.out"
        said = out.read_text() if job and out.exists() else ""
        self.assertEqual(done.returncode, 0, done.stderr + said)
        return job, said

    def test_slurm(self):
        environment = self.start_slurm()
        job, said = self.submit(self.batch_script(), environment)
        self.assertIn(f"job {job}", said)
        self.assertIn(f"rank {RANKS - 1} of {RANKS}", said)
        self.check_traces(self.folder / "runs" / job, job)
        self.check_copies(*self.submit(self.copying_script(), environment))

    def test_ray(self):
        place = SETUP.build / "ray"
        if not (KEEP and (place / "bin" / "python").exists()):
            libraries_test.install(place, SETUP.python, "ray.txt")
        if not KEEP:
            self.addCleanup(shutil.rmtree, place, True)
        (self.folder / "runs").mkdir()
        snippet = replaced(block("Ray", "python"), **{"/opt/gpumemshim/lib/gpumemshim/libgpumemshim.so": SETUP.build / "lib" / "libgpumemshim.so", "/shared/runs/": f"{self.folder}/runs/"})
        (self.folder / "ray_job.py").write_text(RAY.format(snippet=snippet, program=str(self.folder / "train.py"), ranks=RANKS, storage=str(self.folder / "storage")))
        command = [str(truth.ROOT / "simcuda" / "run"), str(place / "bin" / "python"), "ray_job.py"]
        environment = {**self.environment, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(self.folder)}
        done = subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-4000:])
        self.check_traces(self.folder / "runs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the real Slurm and Ray, instead of the everyday tests")
    parser.add_argument("--keep", action="store_true", help="leave Ray's environment there")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    KEEP = arguments.keep
    chosen = ("test_slurm", "test_ray") if arguments.full else ("test_torchrun", "test_slurms_variables", "test_upload")
    unittest.main(argv=[*rest, *([] if any(not word.startswith("-") for word in rest[1:]) else [f"ClustersTest.{name}" for name in chosen])])
