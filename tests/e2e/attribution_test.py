# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the recorder says of the program's objects is what the program says: names of modules, and which addresses hold parameters, buffers,
gradients and optimizer states. And a backward pass stands below the forward pass that it belongs to.

    python tests/e2e/attribution_test.py --build build/release
"""

import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "objects.py"


class Recorded:
    """A trace's definitions and events, from `gpumemshim export packets --json`."""

    def __init__(self, trace):
        self.tables = {name: {} for name in ("nn_modules", "tensors", "optimizers", "frames", "nodes", "strings", "python_codes")}
        for line in self.dump(trace):
            for name, rows in line["data"].items() if line["type"] == "definitions" else ():
                self.add(name, rows)
        self.events = self.dump(trace, "events")
        for event in self.events:
            event.update(address=int(event["address"], 16), handle=int(event["handle"], 16))

    def dump(self, trace, what="packets"):
        return [json.loads(line) for line in truth.run([SETUP.gpumem, "export", what, "--json", str(trace)], SETUP).splitlines()]

    def add(self, name, rows):
        if name == "stacks":
            for row in rows:
                for i, (parent, frame) in enumerate(zip(row["parent"], row["frame"])):
                    self.tables["nodes"][int(row["first_id"]) + i] = (int(parent), frame)
        elif name in self.tables:
            for row in rows:
                self.tables[name].setdefault(row["id"], {}).update(row)

    def frames(self, stack):
        """Innermost first."""
        found = []
        node = int(stack or 0)
        while node:
            node, frame = self.tables["nodes"][node]
            found.append(self.tables["frames"][frame])
        return found

    def module_of(self, stack):
        numbers = [frame["nn_module"] for frame in self.frames(stack) if frame.get("nn_module")]
        return self.tables["nn_modules"].get(numbers[0]) if numbers else None


class AttributionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-attribution-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = pathlib.Path(folder.name) / "objects.gmtrace"
        environment = truth.environment_of(truth.Case("none"), SETUP)
        output = truth.run(SETUP.recording(cls.trace, *SETUP.command(PROGRAM)), SETUP, environment)
        cls.reported = json.loads(output.splitlines()[-1])
        cls.recorded = Recorded(cls.trace)

    def test_every_byte_has_a_component_and_views_agree(self):
        at = json.loads(truth.run([SETUP.gpumem, "at", "peak", "--json", str(self.trace)], SETUP))
        components = at["components"]
        table = json.loads(truth.run([SETUP.gpumem, "table", "--by", "component", "--json", str(self.trace)], SETUP))
        self.assertEqual({row["name"]: row["self_bytes"] for row in table["rows"]}, {name: size for name, size in components.items() if name != "library"})
        self.assertLess(components.get("other", 0), 0.02 * sum(components.values()), components)

    def root_of(self, model):
        """The number of a model's outermost module: the one whose parameters lie where the model's do."""
        tensors = self.recorded.tables["tensors"]
        wanted = {(name, place[0]) for name, place in model["parameters"].items()}
        roots = {}
        for number, place in self.places().items():
            tensor = tensors[number]
            for name in [tensor.get("name"), *tensor.get("other_names", [])]:
                if tensor["role"] == "PARAMETER" and (name, place[0]) in wanted:
                    roots.setdefault(tensor["root"], set()).add(name)
        whole = [root for root, names in roots.items() if len(names) == len(wanted)]
        self.assertEqual(len(whole), 1, f"{model['model']}: {roots}")
        return whole[0]

    def places(self):
        """Of each tensor: address and size, as they were last told."""
        found = {}
        for event in self.recorded.events:
            if event["kind"] == "tensor":
                found[event["handle"]] = (event["address"], event["size_bytes"])
        return found

    def test_modules_have_their_names(self):
        for model in self.reported["models"]:
            root = self.root_of(model)
            named = {}
            for module in self.recorded.tables["nn_modules"].values():
                if module.get("root") == root:
                    for name in [module.get("name", ""), *module.get("other_names", [])]:
                        named[name] = module["class_name"]
            self.assertEqual({name: named.get(name) for name, _ in model["modules"]}, dict(model["modules"]), model["model"])

    def test_tensors_lie_where_the_program_has_them(self):
        places = self.places()
        for model in self.reported["models"]:
            root = self.root_of(model)
            names, found = {}, {"PARAMETER": {}, "BUFFER": {}, "GRADIENT": {}, "OPTIMIZER_STATE": {}}
            for number, tensor in self.recorded.tables["tensors"].items():
                if tensor["role"] in ("PARAMETER", "BUFFER") and tensor.get("root") == root:
                    names[number] = tensor["name"]
                    found[tensor["role"]][tensor["name"]] = places[number]
            for number, tensor in self.recorded.tables["tensors"].items():
                if tensor.get("of") in names and places.get(number, (0, 0))[0]:
                    key = names[tensor["of"]] + ("." + tensor["name"] if tensor["role"] == "OPTIMIZER_STATE" else "")
                    found[tensor["role"]][key] = places[number]
            for role, reported in (("PARAMETER", "parameters"), ("BUFFER", "buffers"), ("GRADIENT", "gradients"), ("OPTIMIZER_STATE", "states")):
                with self.subTest(model=model["model"], role=role):
                    self.assertTrue(model[reported] or role == "OPTIMIZER_STATE")
                    self.assertEqual(found[role], {name: tuple(place[:2]) for name, place in model[reported].items()})

    def test_parameters_are_described(self):
        for model in self.reported["models"]:
            root = self.root_of(model)
            for tensor in self.recorded.tables["tensors"].values():
                if tensor["role"] == "PARAMETER" and tensor.get("root") == root:
                    _, _, trainable, shape = model["parameters"][tensor["name"]]
                    self.assertEqual((tensor.get("trainable", False), [int(size) for size in tensor["shape"]]), (trainable, shape), tensor)
                    self.assertEqual((tensor["dtype"], tensor["device"]), ("float32", "cuda:0"))

    def test_backward_knows_its_forward_pass(self):
        """Every node was made somewhere; what was made in a module's call knows the module, the loss was made outside of all."""
        total = placed = in_module = of_loss = 0
        for event in self.recorded.events:
            if event["layer"] != "torch" or event["kind"] != "alloc":
                continue
            frames = self.recorded.frames(event["stack"])
            mark = next((i for i, frame in enumerate(frames) if frame.get("forward")), None)
            if mark is None:
                continue
            total += event["size_bytes"]
            placed += event["size_bytes"] if any(frame.get("python_code") for frame in frames[mark + 1 :]) else 0
            in_module += event["size_bytes"] if self.recorded.module_of(event["stack"]) else 0
            node = self.recorded.tables["strings"][frames[mark]["node"]]["value"]
            of_loss += event["size_bytes"] if node in ("LogsumexpBackward0", "MeanBackward0") else 0
        self.assertGreater(total, 10 << 20)
        self.assertGreaterEqual(placed, 0.99 * total)
        self.assertGreaterEqual(in_module, 0.99 * (total - of_loss))

    def test_recomputation_is_told_from_the_first_forward(self):
        """Inside of the backward pass stand the modules' calls again."""
        again = 0
        for event in self.recorded.events:
            frames = self.recorded.frames(event["stack"])
            mark = next((i for i, frame in enumerate(frames) if frame.get("forward")), 0)
            again += any(frame.get("nn_module") for frame in frames[:mark])
        self.assertGreater(again, 10)

    def test_what_comes_after_an_exception_in_backward_is_not_of_it(self):
        (event,) = [event for event in self.recorded.events if event["kind"] == "alloc" and event["address"] == self.reported["leftover"] and event["size_bytes"] == 49664]
        self.assertFalse(any(frame.get("forward") for frame in self.recorded.frames(event["stack"])))

    def test_steps(self):
        steps = {}
        for event in self.recorded.events:
            if event["kind"] == "optimizer_step":
                steps.setdefault(event["handle"], []).append(event["size_bytes"])
        classes = [self.recorded.tables["optimizers"][number]["class_name"] for number in steps]
        self.assertEqual(classes, ["AdamW", "SGD", "SGD", "SGD", "SGD", "Adam"])
        self.assertEqual([value for value in steps.values()], [[0, 1] * 5, [0, 1], [0, 1], [0, 1], [0, 1] * 3, [0, 1] * 3])

    def test_saved_tensors_lie_in_live_blocks(self):
        live, saved, inside = {}, 0, 0
        for event in self.recorded.events:
            if event["layer"] == "torch" and event["kind"] == "alloc":
                live[event["address"]] = event["size_bytes"]
            elif event["layer"] == "torch" and event["kind"] == "free":
                live.pop(event["address"], None)
            elif event["kind"] == "saved":
                saved += 1
                inside += event["address"] in live
        self.assertGreater(saved, 100)
        self.assertEqual(inside, saved)


    def test_frees_have_no_stacks(self):
        self.assertFalse([event for event in torch_frees(self.recorded) if event.get("stack")])


def torch_frees(recorded):
    return [event for event in recorded.events if event["layer"] == "torch" and event["kind"] == "free"]


class OtherSettingsTest(unittest.TestCase):
    """Without what is seen of autograd, and with the stacks of frees."""

    def test_what_is_recorded(self):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-attribution-") as folder:
            trace = pathlib.Path(folder) / "off.gmtrace"
            environment = {**truth.environment_of(truth.Case("none"), SETUP), "GPUMEMSHIM_AUTOGRAD": "0", "GPUMEMSHIM_FREE_STACKS": "1"}
            truth.run(SETUP.recording(trace, *SETUP.command(PROGRAM)), SETUP, environment)
            recorded = Recorded(trace)
        kinds = {event["kind"] for event in recorded.events}
        self.assertIn("tensor", kinds)
        self.assertNotIn("saved", kinds)
        self.assertFalse([frame for frame in recorded.tables["frames"].values() if frame.get("forward")])
        self.assertTrue(recorded.tables["nn_modules"])
        self.assertTrue(torch_frees(recorded))
        self.assertFalse([event for event in torch_frees(recorded) if not event.get("stack")])


if __name__ == "__main__":
    truth.run_tests(globals())
