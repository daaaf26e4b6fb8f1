# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What homes_test.py builds recipes with: conda packages by py-rattler-build, images by buildah. No registry and no channel is needed: a package of a stub stands
where conda-forge's python does, a root of Debian that debootstrap makes where a registry's image does.

    python homes_builders.py conda RECIPE CHANNEL PREFIX     (in an environment that has py-rattler-build and py-rattler)
"""

import asyncio
import json
import os
import pathlib
import shutil
import subprocess
import sys

# Named and numbered as conda-forge's, whose interpreter, with its pip and setuptools, is this machine's.
STUB = """package: {{name: python, version: "{version}"}}
build:
  script:
    - mkdir -p $PREFIX/bin $PREFIX/lib/python{short}/site-packages
    - printf '#!/bin/sh\\nPYTHONPATH="$(dirname "$0")/../lib/python{short}/site-packages" exec {interpreter} "$@"\\n' > $PREFIX/bin/python
    - chmod +x $PREFIX/bin/python
    - ln -s python $PREFIX/bin/python{short}
    - touch $PREFIX/lib/python{short}/site-packages/README
about: {{license: PSF-2.0, summary: stands where Python stands}}
"""
EMPTY = """package: {{name: {name}, version: "80"}}
build:
  noarch: generic
  script:
    - mkdir -p $PREFIX/share/{name} && touch $PREFIX/share/{name}/stub
about: {{license: MIT, summary: stands where {name} stands}}
"""
# buildah finds its library also where it starts itself without an environment, in this mount namespace alone.
ENTER = 'mount --bind "$1" /etc/ld.so.cache; shift; exec "$@"'


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


# --- conda ------------------------------------------------------------------------------------------------------------------------------


def environment(setup, keep):
    """The environment of scripts/requirements/homes.txt in the build tree; the test ends as skipped where it cannot be had."""
    import libraries_test

    place = setup.build / "homes"
    if not (keep and (place / "bin" / "python").exists()):
        libraries_test.install(place, setup.python, "homes.txt")
    return place


def hadolint(tools):
    return next(path for path in tools.glob("**/hadolint*") if path.is_file() and os.access(path, os.X_OK))


def beside(recipe, tarball, folder):
    """The recipe with its package's path, which must be the one that scripts/package writes to, as that of `tarball`."""
    text = recipe.read_text(encoding="utf-8")
    written = "../../build/package/gpumemshim-${{ version }}-linux-x86_64.tar.gz"
    if written not in text:
        raise AssertionError(f"{recipe} takes nothing that scripts/package makes")
    path = folder / "recipe" / recipe.name
    path.parent.mkdir()
    path.write_text(text.replace(written, str(tarball.resolve())))
    return path


def build(recipe, channel, channels):
    from rattler_build import Stage0Recipe, ToolConfiguration

    try:
        Stage0Recipe.from_file(recipe).run_build(tool_config=ToolConfiguration(test_strategy="native"), output_dir=channel, channels=channels)
    except Exception:
        for log in sorted(channel.rglob("conda_build.log")):
            print(log.read_text(), file=sys.stderr)
        raise


def conda(recipe, channel, prefix):
    """Builds the recipe into the channel, with its own tests, and installs it from there."""
    import rattler

    version = sys.version.split()[0]
    stubs = {"python": STUB.format(version=version, short=".".join(version.split(".")[:2]), interpreter=sys.executable)}
    stubs.update({name: EMPTY.format(name=name) for name in ("pip", "setuptools")})
    for name, text in stubs.items():
        path = recipe.parent / name / "recipe.yaml"
        path.parent.mkdir()
        path.write_text(text)
        build(path, channel, [])
    build(recipe, channel, [channel.as_uri()])

    async def install():
        records = await rattler.solve([channel.as_uri()], ["gpumemshim"], platforms=["linux-64", "noarch"], virtual_packages=rattler.VirtualPackage.detect())
        await rattler.install(records, target_prefix=prefix, cache_dir=recipe.parent / "cache")

    asyncio.run(install())


# --- images -----------------------------------------------------------------------------------------------------------------------------


def debian_root(folder):
    """A root of Debian 12, made where it is absent."""
    if not (folder / "etc" / "debian_version").exists():
        run("debootstrap", "--variant=minbase", "bookworm", folder)
    return folder


class Images:
    """Images below a folder of their own, built by buildah without a daemon; debian:12-slim is `base`. Needs root."""

    def __init__(self, folder, base):
        import debian_tools

        self.folder = folder
        (folder / "context").mkdir(parents=True)
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        (folder / "registries.conf").write_text("unqualified-search-registries = []\n")
        libraries = [str(path) for path in debian_tools.UNPACKED.glob("libgpgme11/usr/lib/*-linux-gnu")]
        (folder / "ld.conf").write_text("\n".join([*libraries, "include /etc/ld.so.conf.d/*.conf", ""]))
        run("/sbin/ldconfig", "-X", "-C", folder / "ld.cache", "-f", folder / "ld.conf")
        self.environment = {**os.environ, "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"), "BUILDAH_ISOLATION": "chroot"}
        self.program = [debian_tools.tool("buildah", "buildah"), "--storage-driver", "vfs", "--root", folder / "store", "--runroot", folder / "run"]
        self.trusting = ("--signature-policy", folder / "policy.json")
        run("tar", "-C", base, "-cf", folder / "context" / "base.tar", "--one-file-system", ".")
        (folder / "base.Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        self.buildah("bud", *self.trusting, "-t", "debian:12-slim", "-f", folder / "base.Dockerfile", folder / "context")

    def buildah(self, *words):
        return run("unshare", "--mount", "sh", "-ec", ENTER, "enter", self.folder / "ld.cache", *self.program, *words, env=self.environment, cwd=self.folder)

    def build(self, dockerfile, context, name):
        base = next(line for line in dockerfile.read_text(encoding="utf-8").splitlines() if line.startswith("ARG BASE=")).partition("=")[2]
        self.buildah("bud", *self.trusting, "--pull=never", "--build-arg", f"BASE=localhost/{base}", "-t", name, "-f", dockerfile, context)

    def run(self, name, *command):
        container = self.buildah("from", *self.trusting, "--pull=never", f"localhost/{name}").strip()
        try:
            return self.buildah("run", container, "--", *command)
        finally:
            self.buildah("rm", container)

    def entry_point(self, name):
        return json.loads(self.buildah("inspect", "--type", "image", f"localhost/{name}"))["OCIv1"]["config"]["Entrypoint"]


if __name__ == "__main__":
    _, what, *paths = sys.argv
    {"conda": conda}[what](*map(pathlib.Path, paths))
