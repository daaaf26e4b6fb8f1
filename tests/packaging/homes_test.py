# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The homes that packaging/ has recipes for. Each day: versions agree; the Kubernetes manifest's commands, environment and volumes do what they are for; VS Code's tasks
find file, line and size in real output; what the development container runs is there. With --full the recipes are built of the package:

    python tests/packaging/homes_test.py --build build/release [--full] [--tarball FILE] [--root FOLDER] [--keep]

conda by py-rattler-build, installed by py-rattler; the image by buildah upon a root of Debian 12 (debootstrap, which needs root; --root names one that is made once and kept); the
manifest against Kubernetes' schema, the Dockerfile by hadolint. --tarball takes a package that was made before.
"""

import argparse
import fcntl
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

import packages

sys.path[:0] = [str(packages.ROOT / "scripts" / "lib"), str(packages.ROOT / "tests" / "e2e")]
import debian_tools  # noqa: E402
import homes_builders  # noqa: E402
import truth  # noqa: E402

SETUP = ARGUMENTS = None
ROOT = packages.ROOT
PACKAGING = ROOT / "packaging"
RANKS = 2
# A program without PyTorch, two folders deep: lines 7 and 10 allocate, the latter twice.
PROGRAM = """import ctypes
driver = ctypes.CDLL("libcuda.so.1")
device, context, kept = ctypes.c_int(), ctypes.c_void_p(), [ctypes.c_uint64() for _ in range(3)]
driver.cuInit(0), driver.cuDeviceGet(ctypes.byref(device), 0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), driver.cuCtxSetCurrent(context)
MIB = 1 << 20
def large():
    driver.cuMemAlloc_v2(ctypes.byref(kept[0]), ctypes.c_size_t(300 * MIB))
def small():
    for i in 1, 2:
        driver.cuMemAlloc_v2(ctypes.byref(kept[i]), ctypes.c_size_t(12 * MIB))
large()
small()
"""
# The keys of containers.dev's reference that devcontainer.json may use here, and what each is; its schema is on no registry.
CONTAINER_KEYS = {"name": str, "image": str, "onCreateCommand": str, "updateContentCommand": str, "remoteEnv": dict, "hostRequirements": dict, "customizations": dict}
LINES = {"src/my models/net.py:7": 300, "src/my models/net.py:10": 24}  # MiB


def version():
    return (ROOT / "python/gpumemshim/__init__.py").read_text(encoding="utf-8").partition('__version__ = "')[2].partition('"')[0]


def of_yaml(path):
    return of_text(path.read_text(encoding="utf-8"))


def of_text(text):
    """YAML, read by the PyYAML of .venv."""
    done = subprocess.run([SETUP.python, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise unittest.SkipTest(f"no PyYAML. Run scripts/bootstrap --all: {done.stderr[-200:]}") if "No module" in done.stderr else AssertionError(done.stderr)
    return json.loads(done.stdout)


class HomesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-homes-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = truth.environment_of(truth.Case("none", devices=RANKS), SETUP)

    def run_(self, *command, folder=None, environment=None):
        done = subprocess.run([str(word) for word in command], cwd=folder or self.folder, env=environment or self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def tree(self):
        """What a package has below /opt/gpumemshim, of this build."""
        place = self.folder / "tree"
        for name, source in (("bin/gpumemshim", SETUP.build / "bin" / "gpumemshim"), ("lib/gpumemshim/libgpumemshim.so", SETUP.build / "lib" / "libgpumemshim.so")):
            (place / name).parent.mkdir(parents=True)
            (place / name).symlink_to(source)
        return place

    def test_versions_agree(self):
        self.assertEqual(of_yaml(PACKAGING / "conda" / "recipe.yaml")["context"]["version"], version())
        job = of_yaml(PACKAGING / "kubernetes" / "job.yaml")["spec"]["template"]["spec"]
        self.assertEqual(job["initContainers"][0]["image"], f"gpumemshim:{version()}")
        dockerfile = (PACKAGING / "docker" / "Dockerfile").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"gpumemshim:([\d.]+)", dockerfile)), {version()})

    def mounts(self, container, volumes):
        """mountPath -> a folder here, of volumes that are there."""
        return {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}

    def placed(self, text, mounts):
        """A path of the container as one of this machine."""
        for path in sorted(mounts, key=len, reverse=True):
            if text == path or text.startswith(path + "/"):
                return f"{mounts[path]}{text[len(path):]}"
        return text

    def variables(self, container, job, index):
        """The container's environment, as the kubelet makes it for one pod of the job."""
        of_pod = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index), "metadata.labels['batch.kubernetes.io/job-name']": job["metadata"]["name"]}
        return {each["name"]: each["value"] if "value" in each else of_pod[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container["env"]}

    def test_the_pods_of_the_manifest_are_recorded(self):
        job = of_yaml(PACKAGING / "kubernetes" / "job.yaml")
        pod = job["spec"]["template"]["spec"]
        volumes = {each["name"]: self.folder / each["name"] for each in pod["volumes"]}
        for path in volumes.values():
            path.mkdir()
        (before,), (container,) = pod["initContainers"], pod["containers"]
        self.assertEqual((job["spec"]["completions"], job["spec"]["completionMode"]), (RANKS, "Indexed"))
        mounts = {**self.mounts(before, volumes), "/opt/gpumemshim": self.tree()}  # the image of the recorder
        self.run_(*(self.placed(word, mounts) for word in before["command"]))
        mounts = self.mounts(container, volumes)
        shutil.copy(truth.PROGRAMS / "cluster_rank.py", self.folder / "train.py")
        self.assertEqual(container["command"], ["python", "train.py"])
        for index in range(RANKS):
            said = {name: self.placed(value, mounts) for name, value in self.variables(container, job, index).items()}
            self.assertTrue(pathlib.Path(said["LD_PRELOAD"]).is_file(), said)
            self.assertTrue(pathlib.Path(said["GPUMEMSHIM_PROGRAM"]).is_file(), said)
            self.run_(*SETUP.command("train.py"), environment={**self.environment, **said})
        said = json.loads(self.run_(SETUP.gpumem, "ranks", "--json", volumes["runs"]))
        self.assertEqual((said["job_id"], said["expected_ranks"], said["present_ranks"]), (job["metadata"]["name"], RANKS, RANKS))

    def test_each_volume_of_the_manifest_is_used_and_the_document_shows_what_is_in_it(self):
        pod = of_yaml(PACKAGING / "kubernetes" / "job.yaml")["spec"]["template"]["spec"]
        shown = of_text(re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8"), re.S)[1])
        for key, values in shown.items():
            for value in values:
                self.assertIn(value, pod["containers"][0][key])
        used = {each["name"] for container in (*pod["initContainers"], *pod["containers"]) for each in container["volumeMounts"]}
        self.assertEqual(used, {each["name"] for each in pod["volumes"]})

    def in_a_narrow_terminal(self, command, variables):
        """What a shell's command prints in a terminal of 40 columns."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        environment = {**self.environment, **variables, "PATH": f"{SETUP.build / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        process = subprocess.Popen(["sh", "-c", command], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        printed = b""
        try:
            while read := os.read(ours, 1 << 16):
                printed += read
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0, printed)
        return printed.decode()

    def test_tasks_of_vs_code_find_file_line_and_size(self):
        tasks = json.loads((PACKAGING / "vscode" / "tasks.json").read_text(encoding="utf-8"))["tasks"]
        source = self.folder / "src" / "my models" / "net.py"
        source.parent.mkdir(parents=True)
        source.write_text(PROGRAM)
        record, *asking = tasks
        words = {"${file}": str(source.relative_to(self.folder)), "${command:python.interpreterPath}": SETUP.python}
        self.run_(SETUP.gpumem, *(words.get(word, word) for word in record["args"][:2]), *SETUP.command(words["${file}"]))
        self.assertEqual(record["args"][2:], list(words)[::-1])
        matchers = [matcher for task in asking for matcher in task["problemMatcher"]]
        self.assertEqual([matcher == matchers[0] for matcher in matchers], [True] * len(asking))
        pattern = matchers[0]["pattern"]
        for task in asking:
            found = {}
            for line in self.in_a_narrow_terminal(task["command"], task["options"]["env"]).splitlines():
                if match := re.search(pattern["regexp"], line):
                    found.setdefault(f"{match[pattern['file']]}:{match[pattern['line']]}", match[pattern["message"]])
            self.assertEqual(set(found), set() if " oom " in task["command"] else set(LINES), task["command"])  # nothing ran out
            for place, message in found.items():
                self.assertTrue((self.folder / place.rpartition(":")[0]).is_file(), "shown as it lies below the workspace")
                self.assertRegex(message, rf"^{LINES[place]}(\.\d+)? MiB\b")

    def test_what_the_development_container_runs_is_there(self):
        told = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
        self.assertEqual({key: type(value) for key, value in told.items()}, CONTAINER_KEYS)
        for key in ("onCreateCommand", "updateContentCommand"):
            self.assertTrue(os.access(ROOT / told[key], os.X_OK), told[key])
        self.assertEqual(told["remoteEnv"]["PATH"].partition(":")[0], "${containerWorkspaceFolder}/build/release/bin")
        self.assertTrue(told["image"].endswith(":bookworm"), "Debian 12, whose packages scripts/requirements names")


class RecipesTest(HomesTest):
    """Of --full: what is built of the recipes, and whether it works."""

    @classmethod
    def setUpClass(cls):
        cls.tarball = (ARGUMENTS.tarball or packages.made("tarball")[0]).resolve()
        cls.tools = homes_builders.environment(SETUP, keep=ARGUMENTS.keep)
        if not ARGUMENTS.keep:
            cls.addClassCleanup(shutil.rmtree, cls.tools, True)

    def exercise(self, program):
        print(self.run_(sys.executable, packages.EXERCISE, "--gpumem", program, "--python", SETUP.python, "--folder", self.folder / "work", environment=packages.environment_for()))

    def test_conda(self):
        channel, prefix = self.folder / "channel", self.folder / "prefix"
        recipe = homes_builders.beside(PACKAGING / "conda" / "recipe.yaml", self.tarball, self.folder)
        self.run_(self.tools / "bin" / "python", homes_builders.__file__, "conda", recipe, channel, prefix)
        about = json.loads(next((prefix / "conda-meta").glob("gpumemshim-*.json")).read_text())
        self.assertEqual((about["version"], about["license"], about["noarch"], about["subdir"]), (version(), "Apache-2.0", "python", "linux-64"))
        for words in (("gpumemshim",), ("python", "-m", "gpumemshim")):
            self.assertEqual(self.run_(prefix / "bin" / words[0], *words[1:], "--version", environment=packages.environment_for(prefix)), f"gpumemshim {version()}\n")
        found = "from gpumemshim import _attach, _program; print(_program.find()); print(next(_attach.candidates()))"
        said = self.run_(prefix / "bin" / "python", "-c", found, folder="/", environment=packages.environment_for()).split()
        self.assertEqual(said, [str(prefix / "bin" / "gpumemshim"), str(prefix / "lib" / "gpumemshim" / "libgpumemshim.so")])
        self.exercise(prefix / "bin" / "gpumemshim")

    def test_the_image(self):
        if os.getuid() != 0 or debian_tools.tool("buildah", "buildah") is None or shutil.which("debootstrap") is None:
            self.skipTest("needs root, debootstrap and buildah (scripts/bootstrap --all)")
        base = homes_builders.debian_root(ARGUMENTS.root or self.folder / "root")
        image = homes_builders.Images(self.folder / "images", base)
        image.build(PACKAGING / "docker" / "Dockerfile", self.tarball.parent, f"gpumemshim:{version()}")
        self.assertEqual(image.run(f"gpumemshim:{version()}", "/usr/local/bin/gpumemshim", "--version"), f"gpumemshim {version()}\n")
        self.assertEqual(image.entry_point(f"gpumemshim:{version()}"), ["gpumemshim"])
        # What the manifest's initContainer runs, with its own paths.
        before = of_yaml(PACKAGING / "kubernetes" / "job.yaml")["spec"]["template"]["spec"]["initContainers"][0]
        said = image.run(f"gpumemshim:{version()}", "sh", "-c", f"mkdir /recorder && {' '.join(before['command'])} && ls /recorder/bin /recorder/lib/gpumemshim")
        self.assertIn("libgpumemshim.so", said)

    def test_kubernetes_schema_and_the_linter_of_dockerfiles_have_nothing_to_say(self):
        self.run_(self.tools / "bin" / "python", "-m", "kubernetes_validate", "--strict", PACKAGING / "kubernetes" / "job.yaml")
        self.run_(homes_builders.hadolint(self.tools), PACKAGING / "docker" / "Dockerfile")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="build the recipes, instead of the everyday tests")
    parser.add_argument("--keep", action="store_true", help="leave the builders' environment there")
    parser.add_argument("--tarball", type=pathlib.Path, help="a package that was made before")
    parser.add_argument("--root", type=pathlib.Path, help="a root of Debian 12, made where it is absent, and kept")
    SETUP, ARGUMENTS, rest = truth.setup_of_tests(parser)
    if ARGUMENTS.full and ARGUMENTS.tarball is None and SETUP.build != ROOT / "build" / "release":
        packages.skip("packages are made of build/release")
    chosen = [name for name in (RecipesTest if ARGUMENTS.full else HomesTest).__dict__ if name.startswith("test_")]
    kind = "RecipesTest" if ARGUMENTS.full else "HomesTest"
    unittest.main(argv=[*rest, *([] if any(not word.startswith("-") for word in rest[1:]) else [f"{kind}.{name}" for name in chosen])])
