# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""gpumemshim.forwards: shapes and bytes of each module's forward passes are PyTorch's own, and nothing of it stays in the model.

    python tests/e2e/forwards_test.py --build build/release
"""

import json
import unittest

import python_api_test
import truth

SETUP = None
PROGRAM = """
import json, sys, torch, gpumemshim
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(256, 512), torch.nn.Linear(512, 64)
    def forward(self, x, *, also=None, fails=False):
        x = self.first(x)
        if fails:
            self.second(x[:, :5])
        return {"x": self.second(x), "also": also}
net = Net().cuda()
x, also = torch.randn(8, 256, device="cuda"), torch.ones(3, dtype=torch.int64, device="cuda")
net(x)
counted = torch.cuda.memory_allocated()
with gpumemshim.forwards(net, calls=2) as calls:
    kept = net(x, also=also)
    grown = torch.cuda.memory_allocated() - counted
    try:
        net(x, fails=True)
    except RuntimeError:
        pass
    for _ in range(3):
        net(x)
hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in net.modules())
host = gpumemshim.forwards(torch.nn.Linear(2, 3))
with host as rows:
    host.model([torch.ones(1, 2)][0])
print(json.dumps([calls, counted, grown, hooks, rows]), str(calls).splitlines()[0].split(), sep="\\n")
"""


class Forwards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        python_api_test.SETUP = SETUP
        folder = truth.pathlib.Path(cls.enterClassContext(truth.tempfile.TemporaryDirectory(prefix="gpumemshim-forwards-")))
        (folder / "program.py").write_text(PROGRAM)
        said = truth.run(SETUP.command(folder / "program.py"), SETUP, python_api_test.environment())
        cls.calls, cls.counted, cls.grown, cls.hooks, cls.rows = json.loads(said.splitlines()[0])
        cls.head = said.splitlines()[1]

    def test_shapes(self):
        self.assertEqual([(row["module"], row["class"], row["inputs"], row["outputs"]) for row in self.calls[:3]],
                         [("(the model)", "Net", "float32[8, 256], int64[3]", "float32[8, 64], int64[3]"),
                          ("first", "Linear", "float32[8, 256]", "float32[8, 512]"),
                          ("second", "Linear", "float32[8, 512]", "float32[8, 64]")])

    def test_bytes_are_those_that_pytorch_counts(self):
        whole, first, second = self.calls[:3]
        self.assertEqual((whole["before_bytes"], whole["grown_bytes"]), (self.counted, self.grown))
        self.assertEqual((first["grown_bytes"], second["grown_bytes"]), (8 * 512 * 4, 8 * 64 * 4))
        self.assertEqual(first["after_bytes"], second["before_bytes"])

    def test_a_call_that_fails_and_what_is_beyond(self):
        self.assertEqual([(row["module"], row["call"]) for row in self.calls], [("(the model)", 1), ("first", 1), ("second", 1), ("(the model)", 2), ("first", 2), ("second", 2)])
        self.assertEqual([row["outputs"] is None for row in self.calls[3:]], [True, False, True])

    def test_nothing_stays(self):
        self.assertEqual(self.hooks, 0)

    def test_without_a_gpu_bytes_are_not_known(self):
        (row,) = self.rows
        self.assertEqual((row["inputs"], row["outputs"], row["before_bytes"], row["grown_bytes"]), ("float32[1, 2]", "float32[1, 3]", None, None))

    def test_a_table(self):
        self.assertIn("grown_bytes", self.head)


if __name__ == "__main__":
    truth.run_tests(globals())
