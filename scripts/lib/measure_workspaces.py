# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs the operations of workspace_cases.py on whatever CUDA is here and says, as JSON, what PyTorch's allocator was asked for meanwhile, and what libraries were
asked for where the simulated driver tells.

    python measure_workspaces.py OUTPUT.json [--quick] [--match=TEXT]

{"context_bytes": .., "versions": {..}, "cases": [{"name", "allocations": [bytes, in order], "asked": [[library, operation, parameters], ..]} or {"name", "error"}]}
"""

import ctypes
import json
import sys
import warnings


class Driver:
    """cuInit and a context, with the device's used memory before and after: before PyTorch does anything."""

    def __init__(self):
        self.cuda, self.nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
        self.need(self.cuda.cuInit(0), "cuInit")
        name = ctypes.create_string_buffer(32)
        self.need(self.cuda.cuDeviceGetPCIBusId(name, len(name), 0), "cuDeviceGetPCIBusId")
        self.need(self.nvml.nvmlInit_v2(), "nvmlInit_v2")
        self.device = ctypes.c_void_p()
        self.need(self.nvml.nvmlDeviceGetHandleByPciBusId_v2(name, ctypes.byref(self.device)), "nvmlDeviceGetHandleByPciBusId_v2")
        before = self.used()
        context = ctypes.c_void_p()
        self.need(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
        self.with_context = self.used()
        self.context_bytes = self.with_context - before

    @staticmethod
    def need(result, function):
        if result != 0:
            raise SystemExit(f"{function} returned {result}")

    def used(self):
        """Of the whole device: nothing else may run on it."""
        memory = (ctypes.c_uint64 * 3)()  # total, free, used
        self.need(self.nvml.nvmlDeviceGetMemoryInfo(self.device, memory), "nvmlDeviceGetMemoryInfo")
        return memory[2]

    def asked(self):
        """How often libraries asked for which size; empty on a driver that is not simulated."""
        try:
            ask = self.cuda.simcuda_workspaces
        except AttributeError:
            return {}
        ask.restype, ask.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_uint64)
        text = ctypes.create_string_buffer(ask(None, 0) + 1)
        ask(text, len(text))
        rows = [line.split("\t") for line in text.value.decode().splitlines()]
        return {tuple(row[:3]): int(row[6]) for row in rows if row[0] != "CUDA"}


def allocations_of(torch, run):
    """What the allocator is asked for while an operation runs, in order, as it was asked for."""
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=100_000)
    try:
        run()
        torch.cuda.synchronize()
        events = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(None)
    return [event["size"] for event in events if event["action"] == "alloc"]


def measure(torch, driver, name, prepare):
    try:
        run = prepare()
        made = driver.asked()  # a backward pass needs a forward one, which is another case
        run()  # plans are made in the first run; in the second one only what each run needs is allocated
        sizes = allocations_of(torch, run)
    except Exception as error:  # what this PyTorch or this GPU does not have: told, and left out
        return {"name": name, "error": str(error).splitlines()[0] if str(error) else type(error).__name__}
    after = driver.asked()
    return {"name": name, "allocations": sizes, "asked": [key for key in after if after[key] > made.get(key, 0)]}


def main(argv):
    driver = Driver()
    import torch
    import workspace_cases

    warnings.simplefilter("ignore")
    torch.backends.cudnn.benchmark = False
    results = []
    match = "".join(word.removeprefix("--match=") for word in argv if word.startswith("--match="))
    for name, prepare in workspace_cases.cases("--quick" in argv, match):
        results.append(measure(torch, driver, name, prepare))
        torch.cuda.empty_cache()
    torch.cuda.synchronize()
    versions = {"cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda, "torch": torch.__version__}
    with open(argv[1], "w", encoding="utf-8") as file:
        json.dump({"context_bytes": driver.context_bytes, "versions": versions, "cases": results}, file)


if __name__ == "__main__":
    main(sys.argv)
