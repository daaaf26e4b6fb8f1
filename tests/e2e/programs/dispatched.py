# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What PyTorch's dispatcher does around calls on CUDA tensors: modes, subclasses, transforms, other devices. Each case gives facts (which operators a mode saw, types, devices);
all of them go to $FACTS as JSON, an error as its text. Whoever observes operators must not change a fact.

    FACTS=facts.json python dispatched.py
"""

import contextlib
import functools
import json
import os
import warnings

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

WIDTH = 32


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    """Around another tensor; says which operators came by."""

    seen = []

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        Wrapped.seen.append(str(function))
        bare = torch.utils._pytree.tree_map_only(Wrapped, lambda each: each.inner, (args, kwargs or {}))
        wrapped = torch.utils._pytree.tree_map_only(torch.Tensor, Wrapped, function(*bare[0], **bare[1]))
        return return_and_correct_aliasing(function, args, kwargs or {}, wrapped)


def fact(tensor):
    return [type(tensor).__name__, str(tensor.dtype), list(tensor.shape), list(tensor.stride()), tensor.device.type, tensor.requires_grad, tensor.is_inference()]


def operations(device):
    """With numbers where tensors are, in place, into a given result, along views, counting."""
    whole = torch.arange(24, device=device).reshape(4, 6)
    real = torch.full((4, 6), 2.0, device=device)
    yield from (whole + 1, 2 - whole, whole * 0.5, whole > 3, real.pow(2), 2**whole, torch.where(whole > 3, whole, 0), torch.where(whole > 3, 1.0, 0.0), real.clamp(min=0.5))
    yield from (whole.cumsum(0), whole.sum(), whole.max(1).values, real.mul_(3), whole[1:].add_(1), whole.t().float(), torch.cat([whole, whole]), torch.stack([real, real]))
    yield from (torch.add(whole, 1, out=torch.empty_like(whole)), whole.masked_fill(whole > 3, 0), whole.scatter(1, whole[:, :1] % 6, 7), real.sort().indices, torch.tril(real))
    yield from (real.normal_(), real.uniform_(0, 1), real.bernoulli_(0.5), torch.zeros_like(real), real.new_ones(3), real.bool().any(), real.to(torch.bfloat16), whole.div(2))


def net(device="cuda", **options):
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH, device=device, **options), nn.LayerNorm(2 * WIDTH, device=device, **options), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH, device=device, **options))


# Cases.


def devices():
    return {device: [fact(each) for each in operations(device)] for device in ("cuda", "cpu", "meta")}


def meta_init():
    with torch.device("meta"):
        model = nn.Sequential(net("meta"), nn.Embedding(100, WIDTH), nn.MultiheadAttention(WIDTH, 4))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
        nn.init.trunc_normal_(parameter)
        parameter.data.mul_(0.5).add_(1)
    before = [fact(each) for each in model.parameters()]
    for parameter in model.to_empty(device="cuda").parameters():
        nn.init.uniform_(parameter)
    return before, [fact(each) for each in model.parameters()]


def fake():
    facts = []
    for device in ("cuda", "cpu"):
        with FakeTensorMode(), Log() as log:
            facts += [fact(each) for each in operations(device)]
            model = net(device)
            model(torch.randn(8, WIDTH, device=device)).sum().backward()
            facts.append([fact(each.grad) for each in model.parameters()])
        facts.append(log.seen)
    return facts


def modes():
    model, optimizer = net(), None
    optimizer = torch.optim.AdamW(model.parameters())
    with Log() as log:
        list(operations("cuda"))
        model(torch.randn(8, WIDTH, device="cuda")).pow(2).mean().backward()
        optimizer.step()
    return log.seen


def subclasses():
    Wrapped.seen = []
    one = Wrapped(torch.arange(12, device="cuda").reshape(3, 4))
    results = [one + 1, 2 * one, one.sum(), one > 3, one.float().mean(0), torch.where(one > 3, one, 0), one.add_(1), one.cumsum(1)]
    two = Wrapped(torch.ones(3, 4, device="cuda")).requires_grad_()
    (two * 2).sum().backward()
    return [fact(each) for each in results], fact(two.grad), Wrapped.seen


def functions():
    model, batch = net(), torch.randn(8, WIDTH, device="cuda")
    parameters = dict(model.named_parameters())

    def loss(parameters, one):
        return torch.func.functional_call(model, parameters, (one,)).pow(2).mean()

    gradients = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, batch)
    _, tangent = torch.func.jvp(lambda x: (x * 2).sin(), (batch,), (batch,))
    hessian = torch.func.hessian(lambda x: x.pow(3).sum())(batch[0])
    counted = torch.vmap(lambda x: (x > 0).sum() + 1)(batch)
    functional = torch.func.functionalize(lambda x: x.clone().add_(1))(batch)
    return [fact(each) for each in (*gradients.values(), tangent, hessian, counted, functional)]


def compiled():
    graphs, model = [], net()

    def backend(module, inputs):
        graphs.append([node.name for node in module.graph.nodes])
        return module.forward

    def function(x):
        return model(x) * 2 + (torch.arange(len(x), device="cuda") > 3)[:, None]

    result = torch.compile(function, backend=backend, fullgraph=True)(torch.randn(8, WIDTH, device="cuda"))
    from torch._dynamo.backends.common import aot_autograd
    from functorch.compile import make_boxed_func

    def inner(module, inputs):
        graphs.append([node.name for node in module.graph.nodes])
        return make_boxed_func(module.forward)

    torch._dynamo.reset()
    torch.compile(function, backend=aot_autograd(fw_compiler=inner))(torch.randn(8, WIDTH, device="cuda")).sum().backward()
    return fact(result), graphs


def exported():
    program = torch.export.export(net(), (torch.randn(8, WIDTH, device="cuda"),))
    return [str(node.target) for node in program.graph.nodes]


def inference():
    with torch.inference_mode():
        facts = [fact(each) for each in operations("cuda")]
        result = net()(torch.randn(8, WIDTH, device="cuda"))
    with torch.no_grad():
        return facts, fact(result), fact(net()(torch.randn(8, WIDTH, device="cuda")))


def automatic_types():
    facts = []
    for kind in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=kind):
            model, batch = net(), torch.randn(8, WIDTH, device="cuda")
            facts += [fact(model(batch)), fact(batch @ batch.t()), fact(batch.softmax(-1)), fact(batch * 2), fact(batch.sum())]
    return facts


@contextlib.contextmanager
def one_rank():
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        yield torch.distributed.device_mesh.init_device_mesh("cuda", (1,))
    finally:
        torch.distributed.destroy_process_group()


def sharded():
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    with one_rank() as mesh:
        with torch.device("meta"):
            model = nn.Sequential(*[net("meta") for _ in range(2)])
        for layer in (*model, model):
            fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
        before = [fact(each) for each in model.parameters()]
        model.to_empty(device="cuda")
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randn(8, WIDTH, device="cuda")).float().pow(2).mean().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return before, [fact(each) for each in model.parameters()], fact(norm)


def distributed_tensors():
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, zeros

    with one_rank() as mesh:
        one = distribute_tensor(torch.arange(64, device="cuda").reshape(8, 8), mesh, [Shard(0)])
        empty = zeros(8, 8, device_mesh=mesh, placements=[Replicate()])
        results = [one + 1, one.sum(), one.float() @ one.float().t(), empty.normal_(), (one > 3).redistribute(mesh, [Replicate()])]
        return [fact(each) for each in results], results[1].full_tensor().device.type


def captured():
    graph, batch = torch.cuda.CUDAGraph(), torch.ones(8, dtype=torch.long, device="cuda")
    with torch.cuda.graph(graph):
        result = batch * 2 + 1
    graph.replay()
    return fact(result)


def twice_backward():
    batch = torch.randn(8, WIDTH, device="cuda", requires_grad=True)
    (first,) = torch.autograd.grad(batch.pow(3).sum(), batch, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), batch)
    return fact(first), fact(second)


def refused():
    """Errors are PyTorch's own."""
    texts = []
    for wrong in (lambda x: x + torch.ones(3, device="cuda"), lambda x: x @ x, lambda x: x.add_(torch.ones(2, 8, dtype=torch.complex64, device="cuda")), lambda x: x + torch.ones(8)):
        try:
            wrong(torch.ones(8, 4, device="cuda").long()[:, :2])
        except Exception as error:
            texts.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return texts


def others():
    """Neither strided nor of one device."""
    dense = torch.eye(6, device="cuda")
    sparse, nested = dense.to_sparse(), torch.nested.nested_tensor([torch.ones(2, 3, device="cuda"), torch.ones(4, 3, device="cuda")], layout=torch.jagged)
    return [fact(sparse * 2)[:3], str((nested * 2).layout), fact(torch.arange(4, device="cuda").cpu()), fact(torch.arange(4).cuda() + torch.tensor(1))]


CASES = (devices, meta_init, fake, modes, subclasses, functions, compiled, exported, inference, automatic_types, sharded, distributed_tensors, captured, twice_backward, refused, others)


def main():
    warnings.simplefilter("ignore")
    facts = {}
    for case in CASES:
        try:
            facts[case.__name__] = case()
        except Exception as error:
            facts[case.__name__] = f"{type(error).__name__}: {error}"[:400]
    with open(os.environ["FACTS"], "w", encoding="utf-8") as file:
        json.dump(facts, file, default=functools.partial(str))


if __name__ == "__main__":
    main()
