# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The tables that people keep of a training come out of one run of a program that is not edited, and each number is the one computed here by hand from
shapes and types: stages of the run, components, operations, kinds of memory, the model's parameters, the base model against its adapters.

    python tests/e2e/tables_test.py --build build/release
"""

import collections
import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "tables.py"

# The sizes of the program.
VOCABULARY, WIDTH, HIDDEN, RANK, LAYERS = 64 * 1024, 1024, 4096, 4, 2
STEPS, BATCH, LENGTH = 3, 2, 8
TOKENS = BATCH * LENGTH
NORMS = 2 * LAYERS + 1  # two a block, and the last one
ADAPTERS = 2 * LAYERS  # of queries and values

SIZES = {"bfloat16": 2, "float32": 4, "int64": 8}
MIB = 1 << 20


def block(numbers, dtype):
    """PyTorch rounds up to 512 bytes. Whatever here is larger than 1 MiB is a multiple of 2 MiB, so that no rest of a segment is too small to cut off."""
    return -(-numbers * SIZES[dtype] // 512) * 512


ONE = block(1, "float32")  # a single number, of any type
# What is made over and over: a row of WIDTH numbers a token, in each type; of HIDDEN; of RANK; numbers a token; tokens against tokens; logits.
HALF, FULL = block(TOKENS * WIDTH, "bfloat16"), block(TOKENS * WIDTH, "float32")
WIDE = block(TOKENS * HIDDEN, "bfloat16")
LOW = block(TOKENS * RANK, "float32")
PER_TOKEN = block(TOKENS, "float32")
SCORES = block(BATCH * LENGTH * LENGTH, "bfloat16")
LOGITS_HALF, LOGITS_FULL = block(TOKENS * VOCABULARY, "bfloat16"), block(TOKENS * VOCABULARY, "float32")

# A thread's first product of matrices takes cuBLAS' workspace, 32 MiB on this GPU, for ever: the main thread's in the first adapter, that of autograd's
# thread in the backward pass of the head.
WORKSPACE = 32 * MIB

# (component, how many, shape, type, group of the optimizer)
Parameters = collections.namedtuple("Parameters", "component count shape dtype group")
PARAMETERS = (
    Parameters("embedding", 1, (VOCABULARY, WIDTH), "bfloat16", None),  # also the head's
    Parameters("attention", 4 * LAYERS, (WIDTH, WIDTH), "bfloat16", None),  # the base of queries and values; keys; out
    Parameters("mlp", LAYERS, (HIDDEN, WIDTH), "bfloat16", None),
    Parameters("mlp", LAYERS, (WIDTH, HIDDEN), "bfloat16", None),
    Parameters("lora", ADAPTERS, (RANK, WIDTH), "float32", 0),
    Parameters("lora", ADAPTERS, (WIDTH, RANK), "float32", 0),
    Parameters("norm", 2 * NORMS, (WIDTH,), "bfloat16", 1),  # weight and bias
)


def numbers(p):
    return p.shape[0] * (p.shape[1] if len(p.shape) > 1 else 1)


def by_component(bytes_of):
    """{component: bytes_of summed over its parameters}, those that have any."""
    sums = collections.Counter()
    for p in PARAMETERS:
        sums[p.component] += p.count * bytes_of(p)
    return +sums


# By component, in blocks. AdamW keeps two averages of a parameter's type, and in its fused form the count of its steps on the GPU.
PARAMETER = by_component(lambda p: block(numbers(p), p.dtype))
GRADIENT = by_component(lambda p: 0 if p.group is None else block(numbers(p), p.dtype))
STATE = by_component(lambda p: 0 if p.group is None else 2 * block(numbers(p), p.dtype) + ONE)

# What autograd keeps of a forward pass, by the component that made it. A frozen product of matrices keeps nothing but its weights.
ACTIVATION = {
    "embedding": HALF,  # its output, which the first norm keeps as its input
    "norm": NORMS * 2 * PER_TOKEN,  # mean and reciprocal deviation of each token
    "lora": ADAPTERS * (FULL + LOW + HALF),  # the inputs of both products; queries and values, which attention's products keep
    "attention": LAYERS * (HALF + SCORES),  # keys; softmax's output
    "mlp": LAYERS * WIDE,  # GELU's input
    "block": 2 * LAYERS * HALF,  # the sums beside attention and MLP: each is the input of the next norm
}
LOSS_ACTIVATION = LOGITS_FULL  # the logarithms of the probabilities

# All that a step allocates, by component.
FORWARD = {
    "embedding": HALF,
    "norm": NORMS * (HALF + 2 * PER_TOKEN),
    "lora": ADAPTERS * (FULL + LOW + FULL + HALF + HALF),  # x in float32, both products, the cast, the sum with the base's
    "attention": LAYERS * (5 * HALF + 3 * SCORES),  # both bases, keys, weighted values, out; products, scaled, softmax
    "mlp": LAYERS * (2 * WIDE + HALF),
    "head": LOGITS_HALF,
    "block": 2 * LAYERS * HALF,
}
BACKWARD = {
    "norm": (NORMS - 1) * HALF + NORMS * 2 * block(WIDTH, "bfloat16"),  # of the first one's input nobody asks
    # The cast; of each product the gradients of weights and input; the cast of x's. The gradient of the norm's output is summed up once more, a block.
    "lora": ADAPTERS * (FULL + LOW + FULL + 2 * block(RANK * WIDTH, "float32") + HALF) + LAYERS * HALF,
    # Of the bases', keys' and out's inputs; keys' laid out anew; of queries, keys, values; of softmax: output, the product with it, input, unscaled.
    "attention": LAYERS * (4 * HALF + HALF + 3 * HALF + 4 * SCORES),
    "mlp": LAYERS * (2 * WIDE + HALF),
    "head": HALF,  # of its input
}
LOSS_BACKWARD = ONE + LOGITS_FULL + LOGITS_FULL + LOGITS_HALF  # of the loss, of the probabilities, of the logits in both types

# At the peak of a step, which is in the backward pass of the loss: logits, the loss and its gradient, gradients of probabilities and logits.
PEAK_TEMPORARY = LOGITS_HALF + 2 * ONE + 2 * LOGITS_FULL

DATA = 2 * block(STEPS * TOKENS, "int64")
RATES = 2 * ONE  # the learning rates of both groups


def total(*tables):
    return sum(sum(table.values()) for table in tables)


def percent(part, whole):
    """As reports print it."""
    share = 100 * part / whole
    return "<0.1 %" if share < 0.1 else f"{share:.1f} %" if share < 9.95 else f"{share:.0f} %"


class TablesTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-tables-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = pathlib.Path(folder.name) / "tables.gmtrace"
        truth.run(SETUP.recording(cls.trace, *SETUP.command(PROGRAM)), SETUP, truth.environment_of(truth.Case("none"), SETUP))
        cls.steps = cls.ask("steps")["steps"]
        cls.peak = cls.ask("at", f"step {STEPS}")
        cls.end = cls.ask("at", f"{cls.steps[STEPS - 1]['end_ns']}ns")

    @classmethod
    def ask(cls, command, *arguments):
        return json.loads(truth.run([SETUP.gpumem, command, "--json", *arguments, str(cls.trace)], SETUP))

    def text(self, command, *arguments):
        return truth.run([SETUP.gpumem, command, *arguments, str(self.trace)], SETUP)

    def components(self, moment, category):
        """{component: bytes of the category}, those that have any."""
        rows = {row["component"]: row["by_category"].get(category, 0) for row in moment["component_details"]}
        return {component: size for component, size in rows.items() if size}

    # The model: parameters, their types, devices and groups.

    def sums(self, parameters):
        """What `gpumemshim model` says of some parameters: bytes of tensors, without rounding."""
        count = sum(p.count * numbers(p) for p in parameters)
        size = sum(p.count * numbers(p) * SIZES[p.dtype] for p in parameters)
        trained = [p for p in parameters if p.group is not None]
        trained_count = sum(p.count * numbers(p) for p in trained)
        trained_bytes = sum(p.count * numbers(p) * SIZES[p.dtype] for p in trained)
        return {
            "parameters": count,
            "parameter_bytes": size,
            "trainable_parameters": trained_count,
            "trainable_bytes": trained_bytes,
            "trainable_percent": 100 * trained_count / count,
            "frozen_parameters": count - trained_count,
            "frozen_bytes": size - trained_bytes,
            "gradient_bytes": trained_bytes,
            "optimizer_state_bytes": 2 * trained_bytes + sum(p.count * SIZES["float32"] for p in trained),
        }

    def check_sums(self, reported, parameters):
        expected = self.sums(parameters)
        self.assertAlmostEqual(reported["trainable_percent"], expected.pop("trainable_percent"))
        self.assertEqual({name: reported[name] for name in expected}, expected)

    def test_totals_of_the_model(self):
        totals = self.ask("model")["totals"]
        self.check_sums(totals, PARAMETERS)
        lora = self.sums([p for p in PARAMETERS if p.component == "lora"])
        self.assertEqual((totals["lora_parameters"], totals["lora_bytes"]), (lora["parameters"], lora["parameter_bytes"]))
        by_dtype = {dtype: self.sums([p for p in PARAMETERS if p.dtype == dtype])["parameter_bytes"] for dtype in ("bfloat16", "float32")}
        self.assertEqual(totals["bytes_by_dtype"], by_dtype)
        self.assertEqual(totals["bytes_by_device"], {"cuda:0": totals["parameter_bytes"]})
        text = self.text("model")
        self.assertIn(f"{totals['parameters']:,} parameters, ", text)
        self.assertIn(f"trainable {totals['trainable_parameters']:,} ({percent(totals['trainable_parameters'], totals['parameters'])}, ", text)

    def test_groups_of_parameters(self):
        """Gradients and optimizer state by component, type, device and the optimizer's groups."""
        groups = {(group["by"], group["name"]): group for group in self.ask("model")["groups"]}
        expected = {("device", "cuda:0"): PARAMETERS}
        for p in PARAMETERS:
            expected.setdefault(("component", p.component), []).append(p)
            expected.setdefault(("dtype", p.dtype), []).append(p)
            if p.group is not None:
                expected.setdefault(("optimizer_group", f"AdamW {p.group}"), []).append(p)
        self.assertEqual(groups.keys(), expected.keys())
        for name, parameters in expected.items():
            with self.subTest(group=name):
                self.check_sums(groups[name], parameters)

    def test_each_parameter(self):
        listed = self.ask("model")["parameters"]
        found = collections.Counter((row["component"], tuple(row["shape"]), row["dtype"], row["group"]) for row in listed)
        self.assertEqual(found, {(p.component, p.shape, p.dtype, p.group): p.count for p in PARAMETERS})
        for row in listed:
            self.assertEqual(row["trainable"], row["group"] is not None, row["name"])
            self.assertEqual(row["bytes"], row["elements"] * SIZES[row["dtype"]], row["name"])
        embedding = next(row for row in listed if row["component"] == "embedding")
        self.assertEqual((embedding["name"], embedding["other_names"]), ("embed.weight", ["head.weight"]))
        self.assertEqual([row["name"] for row in listed if row["large"]], ["embed.weight"])  # 128 MiB
        self.assertRegex(self.text("model"), r"frozen, large +embed\.weight\n")

    # Stages and steps.

    def test_stages_of_the_run(self):
        stages = {row["derived"]: row for row in self.ask("stages")["stages"]}
        self.assertEqual(list(stages), ["model_load", "data_preparation", "optimizer_setup", "training", "evaluation"])
        growth = {
            "model_load": total(PARAMETER),
            "data_preparation": DATA,
            "optimizer_setup": RATES,
            "training": total(GRADIENT, STATE) + 2 * WORKSPACE,
        }
        peaks = {
            "model_load": total(PARAMETER) + block(VOCABULARY * WIDTH, "bfloat16"),  # the head had weights of its own at first
            "training": self.peak_bytes(),
        }
        before = 0
        for name, bytes_more in growth.items():
            row, after = stages[name], before + bytes_more
            reported = [row[key] for key in ("start_bytes", "peak_bytes", "end_bytes", "growth_bytes")]
            self.assertEqual(reported, [before, peaks.get(name, after), after, bytes_more], name)
            before = after
        self.assertEqual(stages["evaluation"]["start_bytes"], before)

    def peak_bytes(self):
        """Of every step but the first: the gradients of the last step are gone, and none of this one is there."""
        return total(PARAMETER, STATE, ACTIVATION) + LOSS_ACTIVATION + PEAK_TEMPORARY + DATA + RATES + 2 * WORKSPACE

    def test_steps(self):
        before = total(PARAMETER) + DATA + RATES
        left = total(GRADIENT, STATE) + LOGITS_HALF + ONE + 2 * WORKSPACE  # the program still has logits and loss
        steps = [step for step in self.steps if step["complete"]]
        self.assertEqual([step["start_bytes"] for step in steps], [before, before + left, before + left])
        self.assertEqual([step["end_bytes"] for step in steps], [before + left] * STEPS)
        self.assertEqual([step["growth_bytes"] for step in steps], [left, 0, 0])
        self.assertEqual([step["peak_bytes"] for step in steps[1:]], [self.peak_bytes()] * 2)

    # By category.

    def test_categories_of_a_peak(self):
        categories = self.peak["categories"]
        expected = {
            "parameter": total(PARAMETER),
            "gradient": 0,
            "optimizer_state": total(STATE) + RATES,
            "activation": total(ACTIVATION) + LOSS_ACTIVATION,
            "temporary": PEAK_TEMPORARY,
            "input": DATA,
            "workspace": 2 * WORKSPACE,
            "unknown": 0,
        }
        self.assertEqual({name: categories[name] for name in expected}, expected)
        self.assertEqual(self.peak["category_parts"]["parameter"], {"trainable": total(GRADIENT), "frozen": total(PARAMETER) - total(GRADIENT)})
        self.assertEqual(self.end["categories"]["gradient"], total(GRADIENT))
        self.assertEqual(self.end["categories"]["activation"], 0)
        text = self.text("at", f"step {STEPS}")
        for title, size in (("parameters", total(PARAMETER)), ("activations", total(ACTIVATION) + LOSS_ACTIVATION)):
            self.assertRegex(text, rf"\d \w+ +{percent(size, self.peak['bytes'])} +\d+ +{title} ")

    def test_components(self):
        """Parameters, gradients, optimizer state and what autograd keeps, of each component: the base model's, the adapters'."""
        self.assertEqual(self.components(self.peak, "parameter"), PARAMETER)
        self.assertEqual(self.components(self.peak, "optimizer_state"), {**STATE, "optimizer": RATES})
        self.assertEqual(self.components(self.peak, "activation"), {**ACTIVATION, "loss": LOSS_ACTIVATION})
        self.assertEqual(self.components(self.end, "gradient"), GRADIENT)
        self.assertEqual(self.components(self.peak, "workspace"), {"workspace": 2 * WORKSPACE})  # no module's
        self.assertEqual(self.peak["components"]["other"], ONE)  # the gradient of the loss, which backward() makes
        mlp = PARAMETER["mlp"] + ACTIVATION["mlp"]
        share, forward = percent(mlp, self.peak["bytes"]), ACTIVATION["mlp"] // 1024
        self.assertRegex(self.text("at", f"step {STEPS}"), rf"\n +{mlp / MIB:.2f} MiB +{share} +{forward} KiB +- +- +mlp ")

    def test_base_model_against_adapters(self):
        """What a training of adapters is made of, and in percent of what was allocated."""
        allocated = self.peak["values"]["allocated_bytes"]
        self.assertEqual(allocated, self.peak_bytes())
        parameters = self.components(self.peak, "parameter")
        adapters = parameters.pop("lora")
        reported = {
            "base": sum(parameters.values()),
            "adapters": adapters,
            "gradients": self.end["categories"]["gradient"],
            "optimizer": self.peak["categories"]["optimizer_state"],
            "activations": self.peak["categories"]["activation"],
        }
        by_hand = {
            "base": 2 * (VOCABULARY * WIDTH + LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN) + NORMS * 2 * WIDTH),  # all are multiples of 512 bytes
            "adapters": 4 * ADAPTERS * 2 * RANK * WIDTH,
            "gradients": 4 * ADAPTERS * 2 * RANK * WIDTH + 2 * NORMS * 2 * WIDTH,
            "optimizer": 2 * (4 * ADAPTERS * 2 * RANK * WIDTH + 2 * NORMS * 2 * WIDTH) + 512 * (2 * ADAPTERS + 2 * NORMS + 2),
            "activations": total(ACTIVATION) + LOSS_ACTIVATION,
        }
        self.assertEqual(reported, by_hand)
        shares = {name: round(100 * size / allocated, 1) for name, size in reported.items()}
        self.assertEqual(shares, {"base": 68.9, "adapters": 0.0, "gradients": 0.1, "optimizer": 0.1, "activations": 1.9})

    # Operations: forward, backward and optimizer, by component.

    def test_operations(self):
        allocated = collections.Counter()
        of_loss = 0
        for row in self.ask("modules")["modules"]:
            of_loss += row["loss_bytes"]
            allocated[row["component"] if row["class"] else None, row["stage"]] += row["allocated_bytes"]
        for stage, table, loss, of_workspace in (("forward", FORWARD, 0, "lora"), ("backward", BACKWARD, LOSS_BACKWARD, "head")):
            expected = {component: STEPS * size for component, size in table.items()}
            expected[of_workspace] += WORKSPACE
            if loss:
                expected[None] = STEPS * loss
            self.assertEqual({component: size for (component, of), size in allocated.items() if of == stage}, expected, stage)
        self.assertEqual(allocated[None, "loss"], STEPS * (LOGITS_FULL + 2 * ONE))  # and the loss, and the weight that it was divided by
        self.assertEqual(allocated[None, "optimizer_step"], total(STATE))
        self.assertEqual(of_loss, STEPS * (3 * LOGITS_FULL + 2 * ONE))  # and of its backward pass: the program casts the logits, and calls backward()

    def test_operations_of_what_is_alive(self):
        """The same of the peak: activations are the forward pass', states the optimizer's; of the end: gradients are the backward pass'."""
        by_stage = {row["component"]: row["by_stage"] for row in self.peak["component_details"]}
        for component, size in STATE.items():
            self.assertEqual(by_stage[component]["optimizer_step"], size, component)
        for component in ("embedding", "norm", "attention", "mlp"):
            self.assertEqual(by_stage[component]["forward"], ACTIVATION[component], component)
        ended = {row["component"]: row["by_stage"] for row in self.end["component_details"]}
        for component, size in GRADIENT.items():
            self.assertEqual(ended[component]["backward"], size, component)


if __name__ == "__main__":
    truth.run_tests(globals())
