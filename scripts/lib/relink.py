# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Links what a build tree holds a second time, against an older glibc: the same objects and archives by the same command, with what glibc is replaced.

    link("build/release", "bin/gpumemshim", pathlib.Path("stage/bin/gpumemshim"), old_glibc.sysroot())

docs/packaging.md says why this gives programs that run there.
"""

import pathlib
import re
import subprocess

COMPAT = "packaging/CMakeFiles/gpumem_older_glibc.dir/older_glibc.c.o"
# CMake leaves room for another path by colons at the end, which the loader takes for the current folder.
PADDED_RPATH = re.compile(r'(-Wl,-rpath,"[^":]*):+"')
# Libraries that come in whole: a machine without Debian's packages lacks them. And what their archives need.
ELFUTILS = re.compile(r"(\S+/)(libdw|libelf)\.so(?=\s|$)")
ELFUTILS_NEED = ("liblzma.a", "libbz2.a", "libz.a", "libzstd.a")


def recorded_command(build, output):
    """The build's own command that made `output`, for a shell in the build folder."""
    done = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "-s", output], capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"ninja knows no command for {output} in {build}: {done.stderr.strip()}")
    return done.stdout.strip().splitlines()[-1]


def with_static_elfutils(command):
    """libdw and libelf as archives, and what these need at the end."""
    folders = {match[1] for match in ELFUTILS.finditer(command)}
    if not folders:
        return command, []
    needed = []
    for folder in folders:
        for name in ("libdw.a", "libelf.a"):
            if not pathlib.Path(folder, name).is_file():
                raise RuntimeError(f"{folder}{name} is missing: packages are linked with elfutils' archives (Debian: libdw-dev, libelf-dev)")
        needed += [folder + name for name in ELFUTILS_NEED if pathlib.Path(folder, name).is_file()]
    return ELFUTILS.sub(r"\1\2.a", command), needed


def changed(command, output, to, sysroot):
    """The command that links the same to `to`."""
    inner = command.removeprefix(": && ").removesuffix(" && :")
    if f" -o {output} " not in inner:
        raise RuntimeError(f"the command that links {output} is not understood: {inner[:200]}")
    inner = PADDED_RPATH.sub(r'\1"', inner)
    inner, needed = with_static_elfutils(inner.replace(f" -o {output} ", f' -o "{to}" -B"{sysroot}/" -L"{sysroot}" ', 1))
    # Debug information names the folder of the build, and a file's build id is made of all that is in it.
    # The compiler's runtime comes last on its own; what it lacks must be an object, since an archive before it would not be searched again.
    compat = [COMPAT] if "-static-libgcc" in inner else []
    return " ".join([inner, *compat, *needed, "-Wl,--strip-debug", "-Wl,--as-needed", "-lpthread", "-ldl", "-lm", "-lc"])


def link(build, output, to, sysroot):
    """Links `output`, a path below the build folder, to the path `to`. Raises RuntimeError with the linker's words."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    command = changed(recorded_command(build, output), output, to.absolute(), sysroot.absolute())
    done = subprocess.run(["bash", "-c", command], cwd=build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"{output} could not be linked against glibc of {sysroot}:\n{done.stdout[-3000:]}")
