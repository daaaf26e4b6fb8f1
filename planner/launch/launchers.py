# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Launchers of a planned program that simulates one rank of many: they start that rank alone, in the environment that fake_ranks.py (which loads this file) found,
and connect to no other machine.

    torch.distributed.launcher.api    elastic_launch: of torchrun, torch.distributed.run, accelerate launch and what starts them
    deepspeed.launcher.runner         main: of deepspeed

Failure: what the program's own process fails with is the launcher's exit code.
"""

import os
import subprocess
import sys


def run_one(command, say, launcher):
    say(f"{launcher} starts rank {os.environ.get('RANK', '0')} of {os.environ.get('WORLD_SIZE', '1')} alone; the others are simulated from it")
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        sys.exit(code if code > 0 else 128 - code)


def change_elastic(api, say):
    def start(self, *arguments):
        entry = self._entrypoint
        if callable(entry):  # a function of the program that called it
            return {int(os.environ.get("RANK", "0")): entry(*arguments)}
        local = os.environ.get("LOCAL_RANK", "0")
        run_one([entry, *(word.replace("${local_rank}", local) if isinstance(word, str) else str(word) for word in arguments)], say, "the launcher")
        return {}

    api.elastic_launch.__call__ = start


def change_deepspeed(runner, say):
    def main(args=None):
        asked = runner.parse_args(args)
        command = [] if asked.no_python else [sys.executable, "-u", *(["-m"] if asked.module else [])]
        local = [] if asked.no_local_rank else [f"--local_rank={os.environ.get('LOCAL_RANK', '0')}"]
        run_one([*command, asked.user_script, *local, *asked.user_args], say, "deepspeed")

    runner.main = main


def change(module, say):
    if module.__name__ == "torch.distributed.launcher.api":
        change_elastic(module, say)
    else:
        change_deepspeed(module, say)
