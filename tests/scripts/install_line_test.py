# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Nothing installs gpumemshim by its bare name before it is published, and one variable turns what people read to the name.

    python tests/scripts/install_line_test.py
"""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
sys.dont_write_bytecode = True
import install_line  # noqa: E402

BARE = ("pip install gpumemshim", "uvx gpumemshim report", "pip install 'gpumemshim[mcp]'", "python -m pip install -q gpumemshim==0.1.0", "uv pip install gpumemshim", "uv tool install gpumemshim",
        "uvx --from gpumemshim gpumemshim", "pipx run gpumemshim", "pip install mcp gpumemshim", "pip download gpumemshim", "uvx --with mcp gpumemshim mcp", "pip3 install --upgrade gpumemshim.")
FINE = ("pip install gpumemshim-0.1.0-py3-none-any.whl", "pip install build/package/gpumemshim-*.whl", "pip install mcp, then gpumemshim mcp", "pip uninstall gpumemshim", "`pip install mcp`. gpumemshim report",
        "pip install ./gpumemshim", "pip install --no-index --find-links dist gpumemshim", "gpumemshim run -- pip install torch", "pip install gpumemshim_plugin", "a pipe into gpumemshim")


def check_readme():
    loader = importlib.machinery.SourceFileLoader("check_readme", str(ROOT / "scripts" / "check_readme"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_readme", loader))
    loader.exec_module(module)
    return module


class InstallLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("python/gpumemshim/__init__.py", "__version__ = \"1.2.3\"\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_forms(self):
        for text in BARE:
            self.assertTrue(install_line.bare(text), text)
        for text in FINE:
            self.assertFalse(install_line.bare(text), text)

    def test_one_variable_turns_the_line(self):
        self.assertEqual(install_line.line(self.root), "pip install gpumemshim-1.2.3-py3-none-manylinux_2_28_x86_64.whl")
        for text, line in (("PUBLISHED = False\n", "pip install gpumemshim-1.2.3-py3-none-manylinux_2_28_x86_64.whl"), ("# why\nPUBLISHED = True  # today\n", "pip install gpumemshim")):
            self.write("scripts/lib/release.py", text)
            self.assertEqual(install_line.line(self.root), line)

    def test_a_bare_name_is_found_wherever_people_read(self):
        check = check_readme()
        for name in ("docs/a.md", "analyzer/cli/a.cc", "python/a.py", "scripts/doctor", ".github/a.yml"):
            self.write(name, "\nTry: pip install gpumemshim\n")
        found = list(check.bare_names(self.root))
        self.assertEqual([(each.path, each.line) for each in found], [(name, 2) for name in sorted((".github/a.yml", "analyzer/cli/a.cc", "docs/a.md", "python/a.py", "scripts/doctor"))])
        self.write("scripts/lib/release.py", "PUBLISHED = True\n")
        self.assertEqual(list(check.bare_names(self.root)), [])

    def test_the_first_screen_needs_no_compiler(self):
        check, line = check_readme(), install_line.line(self.root)
        good = f"# x\n<!-- install: made -->\n```console\n$ {line}\n```\n<!-- /install -->\n<!-- report: made -->\n<!-- /report -->\n![a](b.png)\n## Build it\nwith a compiler\n"
        self.write("README.md", good)
        self.assertEqual(list(check.first_screen(self.root)), [])
        self.write("README.md", good.replace("# x", "# x\nFirst get a compiler."))
        self.assertEqual([each.line for each in check.first_screen(self.root)], [2])
        self.write("README.md", good.replace(line, "pip install other"))
        self.assertEqual(len(list(check.first_screen(self.root))), 1)


if __name__ == "__main__":
    unittest.main()
