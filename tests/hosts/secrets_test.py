# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Secrets of a real command line: in no byte of the trace, of what it is named, of the pages and texts made of it; and GPUMEMSHIM_COMMAND_LINE=off.

    python tests/hosts/secrets_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import os
import subprocess
import sys

import hosts_test

SECRET = "Zx81Qw77"
# The arguments that carry it, and what is to be there instead.
ARGUMENTS = {
    f"--secretKey={SECRET}": "--secretKey=***",
    f"++secrets.hf={SECRET}": "++secrets.hf=***",
    f"-DPASSWORD={SECRET}": "-DPASSWORD=***",
    f"Authorization: Bearer {SECRET}": "Authorization: ***",
    f'{{"lr": 1, "password": "{SECRET}"}}': '{"lr": 1, "password": "***"}',
    f"https://host/path?token={SECRET}&page=2": "https://host/path?token=***&page=2",
    f"https://me:{SECRET}@host/": "https://***@host/",
    f"https://hooks.slack.com/services/{SECRET}": "https://hooks.slack.com/***",
    f"Server=h;Password={SECRET};Encrypt=true": "Server=h;Password=***;Encrypt=true",
    "--lr=1e-4": "--lr=1e-4",
}


class Secrets(hosts_test.HostTest):
    def run_with_secrets(self, **more):
        done = self.run_host("host_endings", "return", "0", *ARGUMENTS, "--token", SECRET, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(SECRET, done.stderr)
        return self.the_trace()

    def gpumem(self, *arguments, **environment):
        command = [str(hosts_test.BUILD / "bin" / "gpumemshim"), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env={**os.environ, **environment}, capture_output=True, timeout=120, check=False)

    def test_none_is_in_the_trace_or_in_what_is_made_of_it(self):
        trace = self.run_with_secrets()
        self.assertNotIn(SECRET.encode(), trace.read_bytes())
        line = self.report()["process"]["command_line"]
        self.assertEqual(line[1:], ["return", "0", *ARGUMENTS.values(), "--token", "***"])
        for arguments in (["report"], ["report", "--json"], ["info"], ["export", "packets"], ["flame", "-o", "page.html"]):
            done = self.gpumem(*arguments, trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(SECRET.encode(), done.stdout + done.stderr)
        for path in self.folder.iterdir():
            self.assertNotIn(SECRET.encode(), path.read_bytes(), path.name)

    def test_what_cannot_be_read_whole_ends_before_the_last_word(self):
        done = self.run_host("host_endings", "return", "0", "x" * 40000, "--token", SECRET)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = self.report()["process"]["command_line"]
        self.assertEqual(line[1:], ["return", "0", "..."])

    def test_no_argument_at_all(self):
        for off in ("off", "0"):
            with self.subTest(off=off):
                trace = self.run_with_secrets(GPUMEMSHIM_COMMAND_LINE=off)
                data = trace.read_bytes()
                for word in (SECRET, "--lr", "secretKey", "hooks.slack.com"):
                    self.assertNotIn(word.encode(), data)
                self.assertTrue(trace.name.startswith("gpumemshim.host_endings."), trace.name)
                self.assertIn(b"host_endings", data)
                self.assertEqual(self.report()["process"]["command_line"], [])
                info = json.loads(self.gpumem("info", trace, "--json").stdout)
                self.assertEqual(info["settings"], {**info["settings"], "GPUMEMSHIM_COMMAND_LINE": "off"})
                self.assertIn(b"not recorded (GPUMEMSHIM_COMMAND_LINE=off)", self.gpumem("info", trace).stdout)
                trace.unlink()

    def test_environment(self):
        """Of the few variables that are recorded, too."""
        credential = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx"
        trace = self.run_with_secrets(TORCHELASTIC_RUN_ID=credential, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        self.assertNotIn(credential.encode(), trace.read_bytes())
        self.assertIn(b"expandable_segments:True", trace.read_bytes())


if __name__ == "__main__":
    hosts_test.main()
