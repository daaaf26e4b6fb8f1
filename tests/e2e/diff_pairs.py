# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The pairs of the A/B exam: programs of examples/, each with one change, and what the first sentence of `gpumemshim diff` must say of it."""

import dataclasses
import pathlib
import re

import truth

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A GPT that is built in a second: the changes are the same as in the large one.
SMALL = (
    ("vocabulary: int = 50257", "vocabulary: int = 4096"),
    ("layers: int = 12", "layers: int = 4"),
    ("width: int = 768", "width: int = 384"),
)


@dataclasses.dataclass(frozen=True)
class Pair:
    """`changes` are made to the program of B. `expected`: a regular expression for the first sentence. `exact`: bytes of the line that differs most,
    where they can be computed by hand."""

    program: str
    changes: tuple
    expected: str
    arguments: tuple = ()
    exact: int | None = None
    of_both: tuple = ()
    more: tuple = ()  # arguments of B


def gpt(changes, expected, small=False, **more):
    return Pair("train_gpt.py", changes, expected, of_both=SMALL if small else (), arguments=("--batch", "4", "--length", "256") if small else (), **more)


def vit(changes, expected, **more):
    return Pair("train_vit.py", changes, expected, arguments=("--batch-size", "16"), **more)


LEAK = (
    ("    loss.backward()\n", "    KEPT.append(torch.zeros(32 << 20, dtype=torch.uint8, device=inputs.device))\n    loss.backward()\n"),
    ("def train_step", "KEPT = []\n\n\ndef train_step"),
)
SOFTMAX = (("y = F.scaled_dot_product_attention(q, k, v, is_causal=True)", "y = (q @ k.transpose(-2, -1) / 8).softmax(-1) @ v"),)
CHECKPOINTED = (
    ("            x = block(x)", "            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"),
    ("import torch\n", "import torch\nimport torch.utils.checkpoint\n"),
)

# Each step keeps 32 MiB, a segment of its own; at the peak, in step 3 of 3, all three are there.
EVERY_DAY = {
    "leaked_tensor": gpt(LEAK, r"train_step.* 3 x 32 MiB", small=True, exact=3 * (32 << 20)),
    "optimizer": gpt((("AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)", "SGD(model.parameters(), lr=3e-4)"),), r"SGD instead of AdamW: optimizer state", small=True),
    "batch": gpt((), r"inputs are \[8, 256\] instead of \[4, 256\]: .*activations", small=True, more=("--batch", "8")),
}

FULL = {
    "batch": Pair("train_conv.py", (), r"inputs are \[96, 3, 64, 64\] instead of \[64, 3, 64, 64\]: activations", more=("--batch", "96")),
    "dtype": gpt((("        model = GPT(config)\n", "        model = GPT(config).to(torch.bfloat16)\n"),), r"parameters are bfloat16 instead of float32"),
    "checkpointing_on": gpt(CHECKPOINTED, r"activations are recomputed \(checkpointing\) instead of kept"),
    "leaked_tensor": gpt(LEAK, r"train_step.* 3 x 32 MiB", exact=3 * (32 << 20)),
    "attention": gpt(SOFTMAX, r"activations of blocks\.\*\.attention.*Attention\.forward"),
    "one_layer_more": gpt((("layers: int = 12", "layers: int = 13"),), r"1 layer more in blocks, 12 -> 13"),
    "optimizer": vit((("AdamW(model.parameters(), lr=1e-3)", "SGD(model.parameters(), lr=1e-3, momentum=0.9)"),), r"SGD instead of AdamW: optimizer state"),
    "sequence_length": gpt((), r"inputs are \[8, 2048\] instead of \[8, 1024\]: activations", more=("--length", "2048")),
    "accumulation": gpt(
        (("    optimizer.step()\n", "    compute_loss(model, inputs, targets).backward()\n    optimizer.step()\n"),),
        r"2 backward passes a step instead of 1 \(gradient accumulation\): gradients",
    ),
    "unfused_loss": gpt(
        (
            (
                "        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())",
                "        chosen = F.log_softmax(logits.flatten(0, 1).float(), -1).exp().log()\n        return F.nll_loss(chosen, targets.flatten())",
            ),
        ),
        r"of the loss.*compute_loss",
    ),
    "second_model": Pair(
        "train_conv.py", (("    optimizer = torch", "    import copy\n    average = copy.deepcopy(model)\n    optimizer = torch"),), r"a second copy of the model|2 models instead of 1"
    ),
    "frozen_backbone": vit((("    optimizer =", "    model.blocks.requires_grad_(False)\n    optimizer ="),), r"144 parameters are frozen"),
}


# Written after `gpumemshim diff` was.
def small(changes, expected, **more):
    return gpt(changes, expected, small=True, **more)


KEPT_HIDDEN = (("            x = block(x)\n", "            x = block(x)\n            KEPT.append(x.detach().clone())\n"), ("class GPT(", "KEPT = []\n\n\nclass GPT("))
AVERAGE = (
    ("    optimizer = torch.optim.AdamW(", "    average = {name: p.detach().clone() for name, p in model.named_parameters()}\n    optimizer = torch.optim.AdamW("),
    ("    return model, optimizer\n", "    return model, optimizer, average\n"),
)
DDP = (
    ("    optimizer = torch.optim.AdamW(", "    model = distributed(model)\n    optimizer = torch.optim.AdamW("),
    (
        "def train(config",
        "def distributed(model):\n"
        "    import os\n\n"
        "    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1')\n"
        "    torch.distributed.init_process_group('nccl', store=torch.distributed.HashStore(), rank=0, world_size=1)\n"
        "    return nn.parallel.DistributedDataParallel(model)\n\n\n"
        "def train(config",
    ),
)
KEEP_GRADIENTS = (("optimizer.zero_grad(set_to_none=True)", "optimizer.zero_grad(set_to_none=False)"),)
EVALUATED = (("    loss = compute_loss(model, inputs, targets)\n    loss", "    checked = compute_loss(model, inputs, targets)\n    loss = compute_loss(model, inputs, targets)\n    loss"),)
PARAMETERS_OF_SMALL = 4096 * 384 + 256 * 384 + 4 * (12 * 384 * 384 + 13 * 384) + 2 * 384  # numbers; all are multiples of 128: no rounding

SECOND = {
    "activation": small((('F.gelu(self.expand(x), approximate="tanh")', "F.relu(self.expand(x))"),), r"activations of blocks\.\*\.feed_forward"),
    # 4 layers, each 4 x 256 x 384 in float32 (the residual stream is not cast), in 3 steps. Blocks are larger where the rest of a segment is too small to split.
    "cache_kept": small(KEPT_HIDDEN, r"memory at .*train_gpt.py:82 GPT.forward, none -> 12 x 1\.50 MiB"),
    "checkpointing_off": Pair("train_gpt.py", tuple((now, was) for was, now in CHECKPOINTED), r"activations are kept instead of recomputed", of_both=(*SMALL, *CHECKPOINTED), arguments=("--batch", "4", "--length", "256")),
    "dropout": small((("        return self.contract(", "        return F.dropout(self.contract("), ('approximate="tanh"))', 'approximate="tanh")), 0.1)')), r"activations of blocks\.\*\.feed_forward"),
    "no_autocast": small((('torch.autocast("cuda", dtype=torch.bfloat16)', 'torch.autocast("cuda", dtype=torch.bfloat16, enabled=False)'),), r"float32 instead of bfloat16|activations"),
    "average_kept": small(AVERAGE, r"train\b|average|copy of the model", exact=4 * PARAMETERS_OF_SMALL),
    "ddp": small(DDP, r"communication.* none -> "),
    "gradients_kept": small(KEEP_GRADIENTS, r"gradients"),
    "wider": small((("width: int = 384", "width: int = 768"),), r"52 parameters have other shapes: .* is \[768, 3072\] instead of \[384, 1536\]"),
    "larger_vocabulary": small((("vocabulary: int = 4096", "vocabulary: int = 32768"),), r"memory of the loss.*; token_embedding.weight is \[32768, 384\] instead of \[4096, 384\]"),
    "graph_kept": small(EVALUATED, r"activations, .* in 86 blocks -> .* in 172 blocks"),
    "image_size": vit((("size=224", "size=384"), ("3, 224, 224", "3, 384, 384")), r"inputs are \[16, 3, 384, 384\] instead of \[16, 3, 224, 224\]: activations"),
}

EVERY_DAY["average_kept"] = SECOND["average_kept"]


def text_of(pair, is_b):
    """The program of A or of B."""
    text = (ROOT / "examples" / pair.program).read_text()
    for was, now in (*pair.of_both, *(pair.changes if is_b else ())):
        if was not in text:
            raise AssertionError(f"{pair.program} no longer has {was!r}")
        text = text.replace(was, now)
    return text


def record(setup, folder, pair, is_b, *arguments, **environment):
    """The program of A or of B, recorded in `folder` with these arguments and this environment besides: its trace."""
    program, trace = folder / pair.program, folder / "run.gmtrace"
    program.write_text(text_of(pair, is_b))
    truth.run(setup.recording(trace, *setup.command(program), *arguments), setup, {**truth.environment_of(truth.Case("none"), setup), **environment})
    return trace


def says(pair, headline):
    return re.search(pair.expected, headline) is not None
