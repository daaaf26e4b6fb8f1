# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim forecast --watch` beside each of several programs, for the commands oom and monitor of gpumemshim.compat.memory.

    watches = Watches()
    watches.follow(["run.gmtrace"])     # again whenever there may be new ones
    if watches.take_warning(): ...      # one of them warned since it was asked last

It reads traces as they grow, so a warning comes within a second or so, and leaves nothing in them.
"""

import json
import subprocess
import threading

from gpumemshim import _program


class Watches:
    """end() must be called; nothing is waited for but the ends of the processes."""

    def __init__(self):
        self._warned, self._watched = threading.Event(), {}

    def follow(self, traces):
        for trace in traces:
            if trace not in self._watched:
                command = [_program.find(), "forecast", "--watch", trace, "--json", "--no-marks"]
                quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                watch = subprocess.Popen(command, stdout=subprocess.PIPE, env=_program.environment(), text=True, encoding="utf-8", errors="replace", **quiet)
                self._watched[trace] = watch
                threading.Thread(target=self._listen, args=(watch,), name="gpumemshim-forecast", daemon=True).start()

    def take_warning(self):
        """Whether one warned since this was asked last."""
        warned = self._warned.is_set()
        self._warned.clear()
        return warned

    def end(self):
        for watch in self._watched.values():
            watch.terminate()
            watch.wait()

    def _listen(self, watch):
        for line in watch.stdout:
            if json.loads(line)["event"] == "warning":
                self._warned.set()
        watch.stdout.close()
