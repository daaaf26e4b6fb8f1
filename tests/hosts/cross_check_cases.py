# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs of tests/hosts and examples as they are run for the cross-check with CUPTI, and what the comparison must find.

A case's first word is the program: a host by name, a path below examples/ (Python, or C and C++ that is built first), or a Python program of
tests/hosts. {plugin}, {driver_plugin} and {throws} are libraries of the hosts; {stop} is a file that comes into being after a second.
"""

import dataclasses

import ending_table_test


@dataclasses.dataclass(frozen=True)
class Case:
    """`compared` is False for programs that CUPTI cannot be asked in: `states` says what each process answers. `everyday`: it is quick."""

    words: str
    environment: dict = dataclasses.field(default_factory=dict)
    stdin: str = ""
    processes: int | None = 1  # traces that there must be; None: it depends on which of them the end came first
    compared: bool = True
    states: tuple = ("ended",)
    everyday: bool = False
    needs: tuple = ()  # modules that Python must have
    unexplained: tuple = ()  # rows that stay without a cause, and rightly so

    @property
    def program(self):
        return self.words.split()[0]


KILLED = ("recording", "ended", "not_asked")


def hosts():
    yield Case("host_threads 200", everyday=True)
    yield Case("host_threads_static 200", everyday=True)
    yield Case("host_driver", everyday=True)
    yield Case("host_pools", everyday=True)
    yield Case("host_shares", processes=2, everyday=True)
    yield Case("host_marks", everyday=True)
    yield Case("host_nvtx")
    yield Case("cupti_host runtime libcudart.so.13 alloc 5 free close-runtime")
    yield Case("host_nvtx_library", {"LD_LIBRARY_PATH": "{hosts}:{cuda}"})
    yield Case("many_threads_host together 200")
    yield Case("many_threads_host after 200")
    yield Case("host_control", stdin="init\nalloc 1048576\npush a\nalloc 2048\npause\nalloc 4096\nfree\nresume\nalloc 99\nfork\nfree\nquit\n", processes=None)
    yield Case("host_embeds {python_library} {python_home} global")
    yield Case("host_odd_python 3.99.0", processes=None)
    yield Case("throws_host {throws}", everyday=True)
    for way in ("work", "thread work thread", "seccomp work thread", "work wait closeall work"):
        yield Case(f"host_places {way}", states=KILLED)
    for way in ("hold descriptors work", "work kill"):
        yield Case(f"host_places {way}", states=KILLED, processes=None)
    yield Case("host_places work wait kill", states=KILLED, everyday=True)
    for way in ("malloc", "compute", "sleep", "signals", "driver", "fails", "waits"):
        yield Case(f"attach_host {way} {{stop}}", processes=None)
    yield Case("attach_host loads {stop} {plugin}", processes=None)
    yield Case("attach_host later {stop} {plugin}", processes=None)
    yield Case("attach_static_host {stop}", processes=None)
    for way in ("", "threads"):
        yield Case(f"preloads_host {way}".strip())
    yield Case("preloads_host report", {"LD_PRELOAD": "{hosts}/libpreload_report.so", "LD_LIBRARY_PATH": "{cuda}:{hosts}"})
    yield Case("coverage_driver", everyday=True)
    yield Case("coverage_runtime", everyday=True)


def bugs():
    for name in ("worker", "numa", "null", "other-device", "unknown", "capture", "resolve", "lookups", "deepbind {plugin}", "block", "query"):
        yield Case(f"bugs_host {name}", {"SIMCUDA_DEVICES": "2", **BUG_PRELOADS.get(name, {})}, processes=None)


BUG_PRELOADS = {"block": {"LD_PRELOAD": "{hosts}/libpreload_block.so"}, "query": {"LD_PRELOAD": "{hosts}/libcuda.so.query"}}


def unseen():
    for way in ("plain", "deepbind {plugin}", "late {plugin}", "namespace {driver_plugin}", "second {driver}", "alone {driver_plugin}", "heap -"):
        yield Case(f"unseen_host {way}", processes=None)
    # Nobody but CUPTI can know of these calls.
    yield Case("unseen_host reads -", unexplained=("only CUPTI: allocated: device memory",), everyday=True)


def endings():
    for ending in ("return", "exit 3", "_exit 4", "abort", "throw", "fork"):
        yield Case(f"host_endings {ending}", states=KILLED, processes=None if ending == "abort" else 1, everyday=ending in ("exit 3", "_exit 4", "throw"))
    yield Case("host_endings only-init", processes=None)
    yield Case("host_endings no-cuda", processes=0, compared=False)
    for ending in ending_table_test.ENDINGS:
        yield Case(" ".join(("endings_host", *ending)), states=KILLED, processes=None)


def processes():
    yield Case("processes_host fork ( alloc:3 free ) spawn ( alloc:4 exit:2 ) alloc:5", processes=3, everyday=True)
    yield Case("processes_host alloc:3 fork ( refused refused exit:4 ) clone3 ( exit:5 ) alloc:2 free")
    yield Case("processes_host alloc:3 spawn ( alloc:7 ) vfork alloc:1", processes=None)
    yield Case("processes_host alloc:3 shared ( alloc:4 ) alloc:2 free", everyday=True)
    yield Case("processes_host alloc:3 sleep:700 exec ( alloc:5 )", processes=2, states=KILLED, everyday=True)
    yield Case("processes_host alloc:3 exec ( alloc:5 )", processes=None, states=KILLED)
    yield Case("processes_host alloc:3 sleep:300 closeall sleep:300 alloc:2 free", processes=None, states=KILLED)
    yield Case("processes_host churn sleep:1000 _exit:0", states=KILLED)


def python():
    yield Case("python_program.py")
    yield Case("python_limits_program.py")


def examples():
    yield Case("examples/cuda_c/stages.cc")
    yield Case("examples/cuda_c/marks.c")
    yield Case("examples/leak.py --steps 5", needs=("torch",), everyday=True)
    yield Case("examples/oom.py", needs=("torch",))
    yield Case("examples/fragmentation.py", needs=("torch",))
    yield Case("examples/train_conv.py --steps 3", needs=("torch",))
    yield Case("examples/train_gpt.py --steps 3", needs=("torch",))
    yield Case("examples/train_gpt.py --steps 2", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, needs=("torch",))
    yield Case("examples/train_gpt.py --steps 2", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, needs=("torch",))
    yield Case("examples/train_gpt.py --steps 2", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, needs=("torch",))
    yield Case("examples/train_vit.py --steps 3", needs=("torch",))
    yield Case("examples/train_parallel.py --parallel fsdp", {"SIMCUDA_DEVICES": "2"}, processes=2, needs=("torch",))
    yield Case("examples/train_ranks.py --steps 2", {"SIMCUDA_DEVICES": "2"}, processes=2, needs=("torch",))
    yield Case("examples/train_dp_sgd.py --steps 2", needs=("torch", "opacus"))
    yield Case("examples/train_dp_lora.py --model tiny --steps 1", needs=("torch", "opacus", "transformers", "peft"))
    yield Case("examples/train_llama_lora.py --layers 2 --seq-len 128 --steps 2", needs=("torch", "transformers", "peft", "accelerate"))


def everything():
    return [case for cases in (hosts, bugs, unseen, endings, processes, python, examples) for case in cases()]


# Programs of these folders that are no case, and why.
LEFT_OUT = {
    "examples/compat/testProfiler.py": "starts programs of its own; tests/e2e/reference_test.py runs it",
    "examples/compat/example_usage.py": "starts programs of its own; tests/e2e/reference_test.py runs it",
    "unchanged_host": "compares what a program finds of itself with and without the recorder; its CUDA calls are those of host_hooks",
    "attach_host events": "waits for a line of input and uses no CUDA before it",
    "sanitizers_host": "built by its own test, with a driver that has no CUPTI",
    "embeds_static_host": "built by its own test for each interpreter that has a static library; host_embeds does the same with a shared one",
}
