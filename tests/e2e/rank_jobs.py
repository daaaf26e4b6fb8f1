# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Jobs of several ranks for `gpumemshim ranks`: examples/train_parallel.py with one change in one rank, and what the first sentence must say of it."""

import dataclasses
import subprocess

import truth

PROGRAM = truth.ROOT / "examples" / "train_parallel.py"
# A model that is built in a second. Many steps: NCCL's watchdog lets go of the first buffers after 100 ms.
SHAPE = ("--width", "256", "--inner", "768", "--layers", "3", "--vocabulary", "4001", "--heads", "4", "--batch-size", "2", "--seq-len", "128", "--steps", "24")


@dataclasses.dataclass(frozen=True)
class Planting:
    """`changes` are made to the program; `expected`: a regular expression for the first sentence, "{rank}" is the odd rank; `parallel` of the program."""

    changes: tuple
    expected: str
    parallel: str = "ddp"
    rank: int = 1
    arguments: tuple = ()  # of the program, in all ranks


# No gradients are exchanged: what DDP would refuse, or even out.
APART = ("        return DistributedDataParallel(Llama(arguments).to(device), device_ids=[device.index])\n", "        return Llama(arguments).to(device)\n")
HERE = "dist.get_rank() == {rank}"


def before_backward(line):
    return (("        loss.backward()\n", f"        {line}\n        loss.backward()\n"), ("def main():", "KEPT = []\n\n\ndef main():"))


LEAK = before_backward(f"KEPT.append(torch.zeros(1 << 20, device=device)) if {HERE} else None")

BALANCED = {"ddp": Planting((), "", "ddp"), "fsdp": Planting((), "", "fsdp"), "tp": Planting((), "", "tp", arguments=("--heads", "8")), "hsdp": Planting((), "", "hsdp")}

# Written before the command was run.
FIRST = {
    "leaked_buffer": Planting(LEAK, r"\brank {rank} holds .* more .*train_parallel\.py:\d+ main", "ddp", 2),
    "leaked_buffer_fsdp": Planting(LEAK, r"\brank {rank} holds .* more .*train_parallel\.py:\d+ main", "fsdp", 3),
    "one_layer_more": Planting(
        (APART, ("for _ in range(arguments.layers)", f"for _ in range(arguments.layers + ({HERE}))")), r"\brank {rank} holds .* more .*1 layer more in blocks, 3 -> 4", rank=1
    ),
    "uneven_batch": Planting(
        (("(arguments.batch_size, arguments.seq_len + 1)", f"(arguments.batch_size * (4 if {HERE} else 1), arguments.seq_len + 1)"),),
        r"\brank {rank} holds .* more .*inputs are \[8, 128\] instead of \[2, 128\]",
        rank=3,
    ),
    "uneven_batch_fsdp": Planting(
        (("(arguments.batch_size, arguments.seq_len + 1)", f"(arguments.batch_size * (4 if {HERE} else 1), arguments.seq_len + 1)"),),
        r"\brank {rank} holds .* more .*inputs are \[8, 128\] instead of \[2, 128\]",
        "fsdp",
        rank=0,
    ),
    "another_dtype": Planting((APART, ("        return Llama(arguments).to(device)\n", f"        return Llama(arguments).to(device, torch.bfloat16 if {HERE} else torch.float32)\n")), r"\brank {rank} holds .* less .*bfloat16 instead of float32", rank=2),
    "no_autocast": Planting(
        (('torch.autocast("cuda", torch.bfloat16)', f'torch.autocast("cuda", torch.bfloat16, enabled=not ({HERE}))'),),
        r"\brank {rank} holds .* more .*(activations|temporaries|memory)\b",
        rank=0,
        arguments=("--batch-size", "8"),
    ),
}

# Written after it was.
SECOND = {
    "second_model": Planting((("    optimizer = torch.optim", f"    average = copy.deepcopy(model) if {HERE} else None\n    optimizer = torch.optim"), ("import argparse\n", "import argparse\nimport copy\n")), r"\brank {rank} holds .* more .*(second copy of the model|2 models instead of 1|train_parallel\.py:\d+ main)", rank=0),
    "sgd": Planting((("torch.optim.AdamW(model.parameters(), lr=3e-4)", f"(torch.optim.SGD if {HERE} else torch.optim.AdamW)(model.parameters(), lr=3e-4)"),), r"\brank {rank} holds .* less .*SGD instead of AdamW: optimizer state", rank=2),
    "kept_logits": Planting(before_backward(f"KEPT[:] = [*KEPT, logits.detach().clone()][-5:] if {HERE} else []"), r"\brank {rank} holds .* more .*train_parallel\.py:\d+ main", "fsdp", 3),
    "longer_sequence": Planting((("arguments.seq_len + 1)", f"arguments.seq_len * (4 if {HERE} else 1) + 1)"),), r"\brank {rank} holds .* more .*inputs are \[2, 512\] instead of \[2, 128\]", "fsdp", rank=1),
    "frozen": Planting((APART, ("    optimizer = torch.optim", f"    model.blocks.requires_grad_(not ({HERE}))\n    optimizer = torch.optim")), r"\brank {rank} holds .* less .*parameters are frozen", rank=2),
    "gradients_kept": Planting((("        optimizer.zero_grad()\n", f"        optimizer.zero_grad(set_to_none=not ({HERE}))\n"), APART), r"\brank {rank} holds .* more .*gradients", rank=3, arguments=("--batch-size", "8")),
    "second_graph": Planting(before_backward(f"checked = model(tokens[:, :-1]).sum() if {HERE} else None"), r"\brank {rank} holds .* more .*(activations|memory|temporaries) ", rank=0),
    "no_checkpointing": Planting((("            x = block(x)\n", f"            x = block(x) if {HERE} else torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)\n"), ("import torch\n", "import torch\nimport torch.utils.checkpoint\n")), r"\brank {rank} holds .* more .*activations are kept instead of recomputed", rank=1, arguments=("--batch-size", "8")),
    "large_buffer": Planting((APART, ("        self.norm = nn.RMSNorm(arguments.width)\n        self.head", f"        self.norm = nn.RMSNorm(arguments.width)\n        self.register_buffer(\"mask\", torch.ones(2048, 2048) if {HERE} else None)\n        self.head")), r"\brank {rank} holds .* more .*buffers", rank=2),
    "bucket_view": Planting((("device_ids=[device.index])", f"device_ids=[device.index], gradient_as_bucket_view={HERE})"),), r"\brank {rank} holds .* less .*(gradients|communication)", rank=3),
    "on_the_gpu_of_another": Planting((("    optimizer = torch.optim", f"    stray = torch.ones(16 << 20, device=\"cuda:0\") if {HERE} else None\n    optimizer = torch.optim"),), r"\brank {rank} also has 64 MiB on GPU 0", rank=3),
}


def text_of(planting):
    text = PROGRAM.read_text(encoding="utf-8")
    for was, now in planting.changes:
        now = now.replace("{rank}", str(planting.rank))
        if text.count(was) != 1:
            raise truth.Failure(f"{PROGRAM.name} has {text.count(was)} times {was!r}")
        text = text.replace(was, now)
    return text


def record(setup, folder, planting, ranks, *arguments):
    """Runs the job with its traces in `folder`, which is returned."""
    program = folder / PROGRAM.name
    program.write_text(text_of(planting), encoding="utf-8")
    return record_program(setup, folder, program, ranks, "--parallel", planting.parallel, *SHAPE, *planting.arguments, *arguments)


def record_program(setup, folder, program, ranks, *arguments):
    environment = truth.environment_of(truth.Case("none", devices=ranks), setup)
    environment.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", GPUMEMSHIM_SUMMARY="on")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    command = [setup.gpumem, "run", "-o", f"{folder}/", "--", *setup.command(torchrun[0]), *torchrun[1:], str(program), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=setup.timeout_s, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise truth.Failure(f"exit {done.returncode}: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return folder
