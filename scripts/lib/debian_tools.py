# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs of Debian's packages, unpacked below .deps/debian and not installed: the packages of servers would start them, and need root.

    promtool = tool("prometheus", "promtool")              a path; on PATH, else unpacked; None where it was not fetched
    python3 scripts/lib/debian_tools.py prometheus ...     fetches what is missing (scripts/bootstrap --all does it for scripts/requirements/debian_tools.txt)

apt-get fetches as this machine configures it, of the release that it runs. RuntimeError where a package cannot be had.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".deps" / "debian"


def run(*command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")


def tool(package, name):
    """The program `name`, as this machine has it or from the unpacked `package`; None where there is neither."""
    if found := shutil.which(name):
        return found
    places = (UNPACKED / package / folder / name for folder in ("usr/bin", "usr/sbin"))
    return next((str(path) for path in places if path.is_file()), None)


def fetch(packages):
    """Unpacks each of the packages into .deps/debian/PACKAGE; one that is there stays as it is."""
    UNPACKED.mkdir(parents=True, exist_ok=True)
    for package in packages:
        if (UNPACKED / package).is_dir():
            continue
        with tempfile.TemporaryDirectory(dir=UNPACKED) as place:
            folder = pathlib.Path(place)
            run("apt-get", "download", "-q", "-o", "APT::Sandbox::User=", package, folder=folder)
            run("dpkg-deb", "-x", *map(str, folder.glob("*.deb")), "tree", folder=folder)
            (folder / "tree").rename(UNPACKED / package)


if __name__ == "__main__":
    try:
        fetch(sys.argv[1:])
    except (RuntimeError, OSError) as error:
        sys.exit(f"debian_tools: {error}")
