# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Under LC_ALL=zh_CN.UTF-8 people read Chinese: the help of every command, and every answer about the traces of the corpus, with no English word left but
names of the traced program, commands and code, and the terms that are written in English in Chinese texts too.

    python tests/e2e/chinese_test.py --build build/release             three traces; with --full all of the corpus
    python tests/e2e/chinese_test.py --build build/release --show [TRACE...]     what is left in English, most frequent first: words, then lines
    ... --only leaks --only help                                       of these commands

The tables are analyzer/base/phrases_zh/*.txt. GAPS is how many different lines may still have English in them: it only falls.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import truth

sys.path[:0] = [str(truth.ROOT / "tests" / part) for part in ("corpus", "sanitizers")]
import commands_test  # noqa: E402
import corpus  # noqa: E402

SETUP = None
FULL = False
EVERY_DAY = ("leak", "oom")
# Different lines with English in them, of help and of answers about EVERY_DAY and about the whole corpus.
GAPS = {"help": 0, "everyday": 0, "full": 0}

# Terms that Chinese texts have in English, in any form of theirs; units.
TERMS = set(
    """gpu gpus cpu cuda nvidia cupti cublas cudnn nccl nvml nvtx pytorch torch python json jsonl csv html svg png pdf sql yaml toml markdown parquet arrow duckdb sqlite
    prometheus openmetrics grafana chrome chromium perfetto speedscope pprof rmm hta mcp api url http https tcp ipc pid uid id ip xml junit github ci cli ui url
    ddp fsdp zero peft lora mlp adapter adam adamw sgd opacus dp transformer transformers huggingface megatron deepspeed vllm triton inductor dynamo compile autograd autocast amp
    kv bf fp int bfloat float uint bool nan inf ok utf ascii linux unix windows wsl docker kubernetes slurm torchrun mpi glibc libunwind ptrace dlopen ld elf dwarf
    simcuda gpumemshim gpumem nsight memray memory_viz jq grep gdb git pip wheel uvm rss vram oom gc gil shell bash ctrl c
    b kb mb gb tb kib mib gib tib pib ns us ms s min h d x k m g utc tflops mig ecc pcie nvlink sm
    h100 h200 a100 v100 rank ranks dp_sgd master tensor adam8bit cache jit dtype lr zip xz gzip pickle ipython jupyter notebook batch micro logits token tokens expandable segments external
    except str del list dict tuple set defaultdict deque
    """.split()
)
# Words of ours that programs use as names, too: as a name only within code.
OURS = set(
    """step steps forward backward loss data train training model main peak end start memory stage module category block blocks root head norm attention embedding
    mlp other unknown total free held line file name size in of and the to by from with is it at on for a an no not run update save load eval optimizer input
    inputs output cache call get set run wait close open read write next all any none""".split()
)

_CODE = [
    r"\b\w+(?:\[[^\]]*\]|\.\w+)*\[[^\]]*\](?:\.\w+)*",  # history[*].grad_fn
    r"`[^`]*`", r"'[^']*'", r"“[^”]*”", r'"(?:[^"]|"(?=[\])\w]))*"', r'"[^"]*$',  # the last: a line of source that a wrap cuts
    r"gpumemshim(?: (?:run|report|flame|leaks|plan|attach|doctor|at|explain|html|plot|tree|table|sql|diff|ranks|check|replay|simulate|sweep|bisect|live|serve|ctl|mcp|import|"
    r"export|bundle|PID (?:start|stop|dump|status|owners)|(?:--|tensors) [A-Z]+|peak|timeline|oom|fragmentation|steps|stages|modules|model|sizes|forecast|info|-\S+|[A-Z]+(?=\W|$)|(?:--|tensors) [A-Z]+|PID (?:start|stop|dump|status|owners)|\S*[./]\S*))*",
    r"(?:backward of )?[\w:]+Backward\d*",
    r"[^\s，：]+(?: \(\w+ of \d+\))?(?=，\S* ?\w* ?[中时] \w+ 的变量)", r"(?<=[中时] )\w+(?= 的变量)", r"(?<=：)\w+(?= 的跟踪)",  # variables, a program's name
    r"\w+…", r"[├└] cu\w+ workspace(?= ›)", r"--split device",  # names that are cut; a frame; what is typed
    r"\S+\.(?:py|cc|cpp|cu|h|c)\b(?::\d+)?(?: [A-Za-z_<][\w.<>]*)?",  # a line of code, and its function
    r"[\w.<>]+ \(\S+\.(?:py|cc|cpp|cu|h)(?::\d+)?\)",
    r"<[^>\s]*>", r"\{[^}\s]*\}", r"\[[^\]]*\]",
    r"--?[A-Za-z][\w-]*(?:[= ][A-Z_]+\b)?(?:=\S+)?",  # flags, with a name of their value
    r"[\w.+*^$\\-]*[_/=@#$:~|%][\w./=@#$:~|%+*^\\-]*", r"\b\w+(?:\.\w+)+", r"\b\w*[a-z]\w*[A-Z]\w*", r"\b\w*\d\w*", r"\b[A-Z]\b",
]  # fmt: skip
CODE = re.compile("|".join(f"(?:{each})" for each in _CODE), re.ASCII)
WORD = re.compile(r"[A-Za-z]+")
# Names of protocols and formats, and what is typed.
HELP_TERMS = re.compile(r"Model Context Protocol|Trace Event Format|Holistic Trace Analysis|Nsight Systems|nsys \w+|pip install \w+|expandable segments|Tiny Torch|step N|xplane pb|ssh -L|\b[A-Z][A-Z_]+\b")
CHINESE = re.compile("[\u4e00-\u9fff]")
NAMES = ("SELECT DISTINCT function AS name FROM frames", "SELECT DISTINCT library AS name FROM frames", "SELECT DISTINCT module AS name FROM modules", "SELECT DISTINCT class AS name FROM modules",
         "SELECT hostname AS name FROM processes UNION SELECT program FROM processes UNION SELECT device_name FROM processes UNION SELECT torch_version FROM processes",
         "SELECT DISTINCT text AS name FROM marks", "SELECT DISTINCT thread_name AS name FROM events")  # fmt: skip
# A file, and an answer in another language than ours, have no words for people.
NO_TEXT = {"sql", "import", "plot", "bundle", "html", "flame"}


def environment():
    base = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEMSHIM_", "LC_", "LANG"))}
    return {**base, "LC_ALL": "zh_CN.UTF-8", "GPUMEMSHIM_INDEX_ABOVE": "never", "TERM": "dumb", "COLUMNS": "4000"}


def said(*words):
    """What a command says, in Chinese."""
    done = subprocess.run([SETUP.gpumem, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, env=environment())
    return done.stdout + done.stderr


def names_of(trace):
    names = set()
    for query in NAMES:
        out = subprocess.run([SETUP.gpumem, "sql", str(trace), query, "--format", "json"], capture_output=True, text=True, env=environment()).stdout
        try:
            rows = json.loads(out)["rows"]
        except (ValueError, KeyError):
            continue
        names |= {row["name"] for row in rows if row["name"]}
    # Of "std::vector<...> f(...)" also the words.
    return names | {word for name in names for word in re.findall(r"\w+", name)} - OURS


def english_of(line, names=frozenset()):
    """The English words of a line."""
    for name in sorted((name for name in names if " " in name and name in line), key=len, reverse=True):
        line = line.replace(name, " ")
    bare = CODE.sub(" ", line)
    return [word for word in WORD.findall(bare) if word.lower() not in TERMS and word not in names]


def english_of_help(line, commands):
    """In help words that are typed stand alone, and need no quotes: two in a row, or a line without Chinese, are English."""
    bare = HELP_TERMS.sub(" · ", CODE.sub(" · ", line))
    words = [word for word in WORD.findall(bare) if word.lower() not in TERMS and word not in commands]
    if CHINESE.search(line):
        words = [word for pair in re.findall(r"\b([A-Za-z']+)(?= ([A-Za-z']+))", bare) if set(pair) <= set(words) for word in pair]
    return words


def is_example(line):
    return re.match(r"  +(?:\w+=\S* )*(?:gpumemshim|python|torchrun|curl) ", line) is not None


def commands_of():
    """All of them, from the overview, whose titles are Chinese here."""
    return re.findall(r"^(?:[\u4e00-\u9fff]+)? +([a-z]+)  +\S", said("--help") + said("report", "--help"), re.M)


def help_lines():
    yield from ((line, "help") for line in said("--help").splitlines())
    for command in commands_of():
        text = said(command, "--help")
        for line in text.splitlines()[1:]:
            code = re.match(r"  +\S.*?(?=   ?\S)|  +\S+.*", line).group(0) if is_example(line) else ""
            flag = re.match(r"  -\S.*?(?:  +| (?=[^ -~])|$)|  [a-z]+ ?(?:TEXT)?  +", line)  # names of flags and sections, and their values
            yield line.removeprefix(code).removeprefix(flag.group(0) if flag else ""), f"{command} --help"


def lines_of(trace, only=()):
    trace = str(trace)
    asked = []
    for command, lines in commands_test.OF_A_TRACE.items():
        if command in NO_TEXT or (only and command not in only):
            continue
        asked += [(command, line) for line in lines if "--json" not in line and "-o {out}" not in line and command != "export"]
    asked = [(command, line.format(t=trace, other=trace, folder=os.path.dirname(trace), out="/nowhere")) for command, line in asked]
    for (command, line), text in zip(asked, POOL.map(lambda each: said(each[0], *each[1].split()), asked)):
        yield from ((each, f"{command} {line}") for each in text.splitlines())


POOL = concurrent.futures.ThreadPoolExecutor(2)


class Gaps:
    """Lines with English words: each once, whatever its numbers."""

    def __init__(self):
        self.words, self.lines = collections.Counter(), collections.Counter()
        self.first = {}

    def add(self, lines, names=frozenset(), english=english_of):
        for line, where in lines:
            words = english(line, names)
            if not words:
                continue
            self.words.update(words)
            key = re.sub(r"\d[\d,.]*", "0", line.strip())
            self.lines[key] += 1
            self.first.setdefault(key, (line.strip(), where))
        return self

    def text(self, most=None):
        words = " ".join(f"{word}:{count}" for word, count in self.words.most_common(most))
        lines = [f"{count:5} {self.first[key][0]}   [{self.first[key][1]}]" for key, count in self.lines.most_common(most)]
        return "\n".join([words, *lines, f"{len(self.lines)} lines with English in them"])


class ChineseTest(unittest.TestCase):
    def judge(self, kind, gaps):
        print(f"\n{kind}: {len(gaps.lines)} lines with English in them, {GAPS[kind]} allowed")
        self.assertLessEqual(len(gaps.lines), GAPS[kind], f"English words in Chinese:\n{gaps.text(60)}")

    def test_help(self):
        self.judge("help", Gaps().add(help_lines(), commands_of(), english_of_help))

    def test_answers(self):
        gaps = Gaps()
        for name in tuple(corpus.CORPUS) if FULL else EVERY_DAY:
            trace = corpus.record(name, SETUP)
            gaps.add(lines_of(trace), names_of(trace))
        self.judge("full" if FULL else "everyday", gaps)

    def test_a_flag_asks_for_a_language_and_json_has_none(self):
        trace = corpus.record("leak", SETUP)
        of = [SETUP.gpumem, "leaks", str(trace)]
        plain = {**environment(), "LC_ALL": "C.UTF-8"}

        def out(*more, where=plain):
            return subprocess.run([*of, *more], capture_output=True, text=True, env=where).stdout

        self.assertEqual(out("--lang", "zh"), out(where=environment()))
        self.assertEqual(out("--lang", "en", where=environment()), out())
        self.assertEqual(out("--json", where=environment()), out("--json"))

    def test_what_is_english_is_found(self):
        self.assertEqual(english_of("  1.5 GiB  39 %  optimizer state    address"), ["optimizer", "state", "address"])
        self.assertEqual(english_of("峰值 2.38 GiB，见 examples/train_gpt.py:97 train_step，运行 gpumemshim leaks --top 0 run.gmtrace"), [])
        self.assertEqual(english_of("the peak in train_step"), ["the", "peak", "in"])
        self.assertEqual(english_of("模块 encoder", {"encoder"}), [])


def show(arguments):
    gaps = Gaps()
    if not arguments.only or "help" in arguments.only:
        gaps.add(help_lines(), commands_of(), english_of_help)
    for trace in arguments.show or []:
        gaps.add(lines_of(trace, arguments.only or ()), names_of(trace))
    print(gaps.text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--show", nargs="*")
    parser.add_argument("--only", action="append")
    SETUP, options, others = truth.setup_of_tests(parser)
    FULL = options.full
    if options.show is not None:
        show(options)
    else:
        chosen = ["ChineseTest.test_answers"] if FULL else []
        unittest.main(argv=[*others, *chosen])
