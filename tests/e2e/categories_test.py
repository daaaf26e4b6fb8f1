# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What memory is for, tensor by tensor: programs say of each tensor that they hold at their end what it is, with its address.

    python tests/e2e/categories_test.py --build build/release
"""

import argparse
import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None

BEGINNING = """
import torch
from torch import nn

def say(category, *tensors):
    for tensor in tensors:
        print(category, tensor.untyped_storage().data_ptr())

"""

# A list of the program's, one of a hook, a dictionary that is filled while a model trains, and an average of its weights.
TRAINED = (
    BEGINNING
    + """
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
average = {name: value.detach().clone() for name, value in net.named_parameters()}
of_hook, outputs, cache = [], [], {}
net[1].register_full_backward_hook(lambda module, inside, outside: of_hook.append(outside[0].detach().clone()))
for step in range(12):
    if step < 6:
        cache[step] = torch.rand(256, 256, device="cuda") @ net[2].weight.detach()
    out = net(torch.randn(512, 256, device="cuda"))
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
    outputs.append(out.detach().softmax(1))
say("parameter", *net.parameters())
say("gradient", *[each.grad for each in net.parameters()])
say("optimizer_state", *[state["momentum_buffer"] for state in optimizer.state.values()])
say("kept", *of_hook, *outputs, *cache.values(), *average.values())
"""
)

# Attention that keeps keys and values by torch.cat, one layer after the other, and the answers in a list.
SERVED = (
    BEGINNING
    + """
class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.out, self.past = nn.Linear(256, 768), nn.Linear(256, 256), None

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        if self.past is not None:
            k, v = torch.cat([self.past[0], k], 1), torch.cat([self.past[1], v], 1)
        self.past = k.contiguous(), v.contiguous()
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v))

class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([SelfAttention(), SelfAttention()])

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

model, answers = Decoder().cuda().eval(), []
with torch.no_grad():
    x = torch.randn(4, 64, 256, device="cuda")
    for step in range(20):
        x = model(x)[:, -1:].clone()
        answers.append(x.softmax(-1))
say("parameter", *model.parameters())
say("kv_cache", *[each for layer in model.layers for each in layer.past])
say("kept", *answers)
"""
)


class CategoriesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-categories-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def check(self, name, text):
        program, trace = self.folder / f"{name}.py", self.folder / f"{name}.gmtrace"
        program.write_text(text)
        environment = truth.environment_of(truth.Case("none"), SETUP)
        said = truth.run(SETUP.recording(trace, *SETUP.command(program)), SETUP, environment)
        statement = "select address, category, evidence from blocks where layer = 'torch' and kept"
        rows = json.loads(truth.run([SETUP.gpumem, "sql", str(trace), statement, "--json"], SETUP))["rows"]
        blocks = {int(row["address"]): (row["category"], row["evidence"]) for row in rows}
        wanted = [line.split() for line in said.splitlines() if line.count(" ") == 1]
        self.assertGreater(len(wanted), 10)
        for category, address in wanted:
            self.assertEqual(blocks[int(address)][0], category)
            self.assertNotEqual(blocks[int(address)][1], "none")
        self.assertNotIn(("unknown", "rule"), blocks.values())

    def test_a_program_that_trains(self):
        self.check("trained", TRAINED)

    def test_a_program_that_answers(self):
        self.check("served", SERVED)


if __name__ == "__main__":
    SETUP, _, (program, *rest) = truth.setup_of_tests(argparse.ArgumentParser())
    unittest.main(argv=[program, *rest])
