# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The public histories of histories.toml, and where their files and their authors' scripts are at hand.

    for history in load():
        history.name                            # "Charan6924/assignment2-systems 075dd06"
        history.find([Path("histories")])       # the pickle, or None
        checkout(history, Path("checkouts"), Path("work"))   # a folder with the author's Python files, or None

Nothing of others is part of this repository: a folder of histories has OWNER__NAME/FILE.pickle, a folder of checkouts OWNER+NAME, each a clone or a
bare git directory (also as OWNER+NAME/repo).
"""

import dataclasses
import pathlib
import subprocess
import tomllib

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class History:
    repository: str
    file: str
    path: str
    commit: str
    blob: str
    recorded_with: str
    gpu: str
    torch: str = ""          # the release to run again with; empty: there is no script
    script: str = ""
    script_commit: str = ""
    folder: str = "."
    arguments: str = ""
    python_path: tuple = ()
    python: str = ""         # the minor version that the script's syntax needs
    no_grad: bool = False
    call: str = ""           # a statement to run with the script's names, instead of its main part
    nth: int = 1
    simulated: dict = dataclasses.field(default_factory=dict)
    own: str = ""            # a program of bench/real_gpu/programs, with arguments
    differs: tuple = ()      # known to differ: "order" (of frees), "events" (besides), "segments", "layout" (blocks in them)
    note: str = ""           # why

    @property
    def name(self):
        return f"{self.repository} {self.blob[:7]}"

    @property
    def title(self):
        """The file's name as its author chose it."""
        return pathlib.PurePosixPath(self.path).stem

    @property
    def facts(self):
        """The name of its committed numbers."""
        return f"{self.repository.replace('/', '+')}.{self.blob[:7]}"

    def find(self, folders):
        for folder in folders:
            if (folder / self.file).is_file():
                return folder / self.file
        return None


def load(path=HERE / "histories.toml"):
    with open(path, "rb") as file:
        sources = tomllib.load(file)["source"]
    found = []
    for source in sources:
        common = {key: value for key, value in source.items() if key != "history"}
        for history in source["history"]:
            fields = {**common, **history}
            for name in ("python_path", "differs"):
                fields[name] = tuple(fields.get(name, ()))
            found.append(History(**fields))
    return found


def git_directory(history, checkouts):
    place = checkouts / history.repository.replace("/", "+")
    return next((folder for folder in (place / "repo", place / ".git", place) if (folder / "HEAD").is_file()), None)


def checkout(history, checkouts, work):
    """A folder with the Python files of the script's commit, made under `work` the first time. None where the repository is not at hand."""
    git = git_directory(history, checkouts)
    if git is None:
        return None
    commit = history.script_commit or history.commit
    folder = work / f"{history.repository.replace('/', '+')}@{commit[:12]}"
    if folder.is_dir():
        return folder
    listed = subprocess.run(["git", f"--git-dir={git}", "ls-tree", "-r", "-z", "--name-only", commit], capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name.endswith(".py") and ".." not in name.split("/"):
            text = subprocess.run(["git", f"--git-dir={git}", "cat-file", "blob", f"{commit}:{name}"], capture_output=True, check=True).stdout
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
    return folder
