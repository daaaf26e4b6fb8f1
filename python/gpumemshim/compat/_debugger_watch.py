# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The warnings of memoryDebugger while it monitors: a thread that reads PyTorch's counters now and then. What is recorded does not depend on it.

    watcher = Watcher(say=print, interval=1.0, growth_mb=100, high_percent=90)
    ...
    watcher.stop()
"""

import threading

from gpumemshim.compat import _cuda
from gpumemshim.compat._cuda import MB

NEARLY_FULL, GREW = "GPU {} 内存使用率过高: {:.1f}%", "GPU {} 内存增长异常: {:.2f} MB"
SHORTEST_S = 0.05


class Watcher:
    """Looks each `interval` seconds. Says once that a GPU is nearly full, until it is no more; and each time that one grew by more than growth_mb since the look before."""

    def __init__(self, say, interval, growth_mb, high_percent):
        self._say, self._interval, self._growth_mb, self._high_percent = say, max(interval, SHORTEST_S), growth_mb, high_percent
        self._before, self._full, self._stop = self._sizes(), set(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpumemshim MemoryDebugger", daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    @staticmethod
    def _sizes():
        return {gpu.device: gpu.allocated / MB for gpu in _cuda.gpus()}

    def _run(self):
        while not self._stop.wait(self._interval):
            self.look()

    def look(self):
        for gpu in _cuda.gpus():
            size = gpu.allocated / MB
            grown = size - self._before.get(gpu.device, size)
            self._before[gpu.device] = size
            if grown > self._growth_mb:
                self._say(GREW.format(gpu.device, grown))
            if gpu.utilization <= self._high_percent:
                self._full.discard(gpu.device)
            elif gpu.device not in self._full:
                self._full.add(gpu.device)
                self._say(NEARLY_FULL.format(gpu.device, gpu.utilization))
