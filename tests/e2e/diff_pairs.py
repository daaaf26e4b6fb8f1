# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The pairs of the A/B exam: programs of examples/, each with one change, and what the first sentence of `gpumem diff` must say of it."""

import dataclasses
import pathlib
import re

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


def text_of(pair, is_b):
    """The program of A or of B."""
    text = (ROOT / "examples" / pair.program).read_text()
    for was, now in (*pair.of_both, *(pair.changes if is_b else ())):
        if was not in text:
            raise AssertionError(f"{pair.program} no longer has {was!r}")
        text = text.replace(was, now)
    return text


def says(pair, headline):
    return re.search(pair.expected, headline) is not None
