# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a release is held to: the state of the repository, and what the tools of an index say of the files.

    repository(ROOT, "0.1.0")              what is in the way, a line each: ["CHANGELOG.md has no section of 0.1.0 with a date"]
    tools = environment(OUT / "tools")     twine, check-wheel-contents, the validator of bills of materials, uv; pinned in scripts/requirements/packaging.txt
    files(tools, {"wheel": path, "sdist": path, "sbom": path})     the same of the files
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import release

ROOT = release.ROOT
REQUIREMENTS = ROOT / "scripts/requirements/packaging.txt"
# check-wheel-contents: these files of the wheel are data, which happen to be alike or to be Python.
IGNORED = ("W002", "W004")
VALIDATE = """
import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(sys.argv[1]).read_text())
sys.exit(wrong and str(wrong)[:2000])
"""


def said(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, cwd=ROOT)
    return done.returncode, done.stdout.strip()


def repository(root, version):
    wrong = []
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        wrong.append(f"{version} is no version of ours: 1.2.3, or 1.2.3rc1 for one that is to be tried first")
    if (stands := release.version(root)) != version:
        wrong.append(f"python/gpumemshim/__init__.py says {stands}, not {version}")
    sections = re.findall(r"^## (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    if not any(re.fullmatch(rf"{re.escape(version)}, \d{{4}}-\d\d-\d\d", section) for section in sections):
        wrong.append(f"CHANGELOG.md has no section `## {version}, YYYY-MM-DD`; it begins with `## {sections[0] if sections else ''}`")
    if said("git", "-C", root, "status", "--porcelain")[1]:
        wrong.append("there are changes that are not committed (git status)")
    code, tagged = said("git", "-C", root, "rev-list", "-n", "1", f"v{version}", "--")
    if code == 0 and tagged != said("git", "-C", root, "rev-parse", "HEAD")[1]:
        wrong.append(f"v{version} is tagged already, at another commit ({tagged[:10]})")
    if not tomllib.loads((root / "python/pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls"):
        wrong.append("python/pyproject.toml names no links ([project.urls]): an index would show none")
    return wrong


def environment(folder):
    """The folder's bin. RuntimeError where the tools cannot be had."""
    wanted, mark = REQUIREMENTS.read_text(), folder / "installed.txt"
    if not mark.is_file() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        for command in ((sys.executable, "-m", "venv", folder),
                        (folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check", "--only-binary=:all:", "-r", REQUIREMENTS)):
            code, text = said(*command)
            if code:
                raise RuntimeError(f"{' '.join(map(str, command[:4]))} failed:\n{text[-2000:]}")
        mark.write_text(wanted)
    return folder / "bin"


def files(tools, made):
    """Lines; none where all is well."""
    checks = (
        ("twine check", (tools / "twine", "check", "--strict", made["wheel"], made["sdist"])),
        ("check-wheel-contents", (tools / "check-wheel-contents", "--ignore", ",".join(IGNORED), made["wheel"])),
        ("CycloneDX's schema", (tools / "python", "-c", VALIDATE, made["sbom"])),
    )
    results = ((name, *said(*command)) for name, command in checks)
    return [f"{name}: {text}" for name, code, text in results if code]


def sums(paths):
    """Of SHA256SUMS, for `sha256sum --check`."""
    code, text = said("sha256sum", *paths)
    if code:
        raise RuntimeError(text)
    return "".join(f"{line.split()[0]}  {pathlib.Path(line.split(maxsplit=1)[1]).name}\n" for line in text.splitlines())
