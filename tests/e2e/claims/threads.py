# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs after public reports of GPU memory that grows, is reserved, lives too long or runs out, and of memory that only looked like that. Written after the code and
before any of its answers about them was seen; docs/claims.md says what their first run was told."""

import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from registry import main, program


def convolutions(width=32, depth=3):
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)).cuda()


def images(count=4, size=64):
    return torch.randn(count, 3, size, size, device="cuda")


def labels(count):
    return torch.zeros(count, dtype=torch.long, device="cuda")


def dense(width=1024, depth=4, bias=False):
    return nn.Sequential(*[nn.Linear(width, width, bias=bias) for _ in range(depth)]).cuda()


# Memory that grows.


@program("growing", thread="https://github.com/jacobgil/pytorch-grad-cam/issues/71", line=("self.activations.append", "self.gradients.append", "score = model("),
         keeper="activations gradients")
def activations_of_all_explained_images(mended):
    class Explained:
        def __init__(self, layer):
            self.activations, self.gradients = [], []
            layer.register_forward_hook(self.save_activation)

        def save_activation(self, module, inputs, output):
            self.activations.append(output.cpu() if mended else output)
            output.register_hook(self.save_gradient)

        def save_gradient(self, gradient):
            self.gradients.append(gradient.cpu() if mended else gradient)

    model = convolutions().eval()
    explained = Explained(model[2])
    for _ in range(40):
        score = model(images())[:, 0].sum()
        score.backward()
        model.zero_grad()
    return model, explained


@program("growing", thread="https://github.com/growingnet/gromo/issues/137", line=("statistic.update(body(",), keeper="sums")
def statistics_with_their_graph(mended):
    class Statistic:
        def __init__(self):
            self.sums, self.samples = torch.zeros(256, 256, device="cuda"), 0

        def update(self, features):
            if mended:
                features = features.detach()
            products = features.T @ features
            self.sums = self.sums + products * features.shape[0]
            self.samples += features.shape[0]

    body, statistic = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 256)).cuda(), Statistic()
    for _ in range(40):
        statistic.update(body(torch.randn(512, 128, device="cuda")))
    return statistic


@program("growing", thread="https://github.com/jmschrei/tangermeme/pull/84", line=("model(x)", "x = torch.randn"), keeper="RESULT models input output")
def inputs_that_hooks_left_on_modules(mended):
    """Attributions of many models, one after the other: the hooks are removed, what they stored is not."""

    def remember(module, inputs, output):
        module.input = inputs[0].detach()
        module.output = output.detach()

    models = [nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 4)) for _ in range(24)]
    for model in models:
        model.cuda()
        handles = [layer.register_forward_hook(remember) for layer in model]
        x = torch.randn(256, 512, device="cuda")
        for _ in range(3):
            with torch.no_grad():
                model(x)
        for layer, handle in zip(model, handles):
            handle.remove()
            if mended:
                del layer.input, layer.output
        model.cpu()
    return models


@program("growing", thread="https://discuss.pytorch.org/t/cuda-out-of-memory-error-understanding-how-pytorch-stores-class-variable/13778",
         line=("Bottleneck.saved[", "out = self.conv("), keeper="saved")
def outputs_in_a_variable_of_the_class(mended):
    class Bottleneck(nn.Module):
        saved, count = [0] * 900, 0

        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 3, padding=1)

        def forward(self, x):
            out = self.conv(x)
            Bottleneck.saved[Bottleneck.count] = out.detach().cpu() if mended else out.detach()
            Bottleneck.count += 1
            return out.mean((2, 3))

    model = Bottleneck().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(50):
        nn.functional.cross_entropy(model(images(16, 32)), labels(16)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


# Memory that is reserved and not allocated.


@program("reserved", thread="https://github.com/NVIDIA/Megatron-LM/pull/6885", line=("stream = torch.cuda.Stream()", "with torch.cuda.stream(stream)", "parts = [", "flat = "), cause="one_stream")
def weights_prepared_on_a_stream_of_their_own(mended):
    """Buffers are packed once on a side stream; what they leave free is of no use to anyone else."""
    model = dense(1024, 8)
    stream = torch.cuda.current_stream() if mended else torch.cuda.Stream()
    with torch.cuda.stream(stream):
        parts = [torch.empty(24 << 18, device="cuda") for _ in range(16)]
        flat = torch.cat([part[:1024] for part in parts])
        del parts
    torch.cuda.current_stream().wait_stream(stream)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(12):
        (model(torch.randn(4096, 1024, device="cuda")).mean() + flat.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("reserved", thread="https://github.com/roboflow/rf-detr/pull/1490", line=("with torch.cuda.graph(", "outputs = "), cause="one_pool")
def a_pool_for_the_graph_of_each_resolution(mended):
    model, graphs = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).cuda().eval(), []
    pool = torch.cuda.graph_pool_handle() if mended else None
    with torch.no_grad():
        for size in (320, 288, 256, 224, 192, 160, 128, 96):
            static = images(2, size)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                outputs = model(static).mean((2, 3))
            graphs.append((graph, static, outputs))
        for graph, _, _ in graphs * 5:
            graph.replay()


@program("reserved", thread="https://github.com/ROCm/legacy-rocm-build/issues/6333", line=("logits = torch.empty",), cause="expandable_segments", also="(allocator)")
def logits_of_ever_more_tokens():
    """Packed batches of changing length: each longer one needs a segment of its own. Mended by expandable segments."""
    for tokens in (1600, 1750, 1900, 2050, 2200, 2350, 2500, 2650):
        logits = torch.empty(tokens, 32000, device="cuda")
        gradients = torch.empty(tokens, 32000, device="cuda")
        del logits, gradients


# Memory that lives too long.


@program("lives", thread="https://discuss.pytorch.org/t/calling-loss-backward-reduce-memory-usage/2735", line=("output = model(", "loss = ", "hidden"), cause="carried_over", keeper="loss")
def the_graph_of_the_batch_before(mended):
    """A validation with autograd on: the variable holds the last batch's graph while the next one is made."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)]).cuda()
    for _ in range(12):
        loss = model(torch.randn(8192, 512, device="cuda")).square().mean()
        if mended:
            del loss


@program("lives", thread="https://github.com/speechbrain/speechbrain/pull/1739", line=("loss.backward()", ".backward()"), cause="gradients_in_forward")
def gradients_in_the_validation(mended):
    model = dense(2048, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
            optimizer.step()
        if mended:
            optimizer.zero_grad()
        with torch.no_grad():
            for _ in range(4):
                model(torch.randn(32768, 2048, device="cuda")).argmax(-1)


@program("lives", thread="https://github.com/pytorch/pytorch/issues/69526", line=("predicted = network(",), cause="carried_over", keeper="predicted")
def frames_of_the_epoch_before(mended):
    """The next batch is made while variables still hold the last one and what came of it."""
    network = nn.Sequential(nn.Conv2d(3, 28, 3), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1)).cuda()
    for _ in range(10):
        with torch.no_grad():
            frames = torch.randn(128, 3, 224, 224).to("cuda")
            predicted = network(frames)
        if mended:
            del frames, predicted


@program("lives", thread="https://github.com/facebookresearch/ParlAI/pull/2487", line=("self.model = dense(", "nn.Sequential(*[nn.Linear(width"), keeper="number_of_examples")
def a_cached_method_keeps_the_trained_agent(mended):
    class World:
        def __init__(self):
            self.model = dense(2048, 12)

        @functools.lru_cache(maxsize=1)
        def number_of_examples(self):
            return 8

        def train(self):
            optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
            for _ in range(self.number_of_examples() if not mended else 8):
                self.model(torch.randn(32, 2048, device="cuda")).mean().backward()
                optimizer.step()
                optimizer.zero_grad()

    World().train()
    best = World()
    with torch.no_grad():
        for _ in range(10):
            best.model(torch.randn(16384, 2048, device="cuda")).argmax(-1)


@program("lives", thread="https://pytorch.org/docs/stable/notes/faq.html", line=("intermediate = ",), keeper="intermediate")
def a_loop_variable_that_outlives_its_loop(mended):
    table, result = torch.randn(64, 1024, device="cuda"), 0
    for _ in range(5):
        intermediate = table.repeat(1024, 1)
        result = result + intermediate[:8].sum()
    if mended:
        del intermediate
    with torch.no_grad():
        wide = nn.Linear(1024, 16384).cuda()
        for _ in range(10):
            wide(table.repeat(64, 1) * result).softmax(-1)


# Memory that runs out.


@program("oom", thread="https://discuss.pytorch.org/t/gpu-memory-increase-while-i-wanna-to-backward-with-accumulative-loss/43284", line=("total = total + ", "loss = ", "model("), keeper="total",
         cause="graph|backward|total", never="fragmentation:", capacity_mb=1024)
def losses_of_all_parts_summed_before_backward(mended):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)]).cuda()
    total = 0
    for _ in range(64):
        loss = model(torch.randn(4096, 512, device="cuda")).square().mean()
        if mended:
            loss.backward()
        else:
            total = total + loss


@program("oom", thread="https://github.com/Maghoumi/pytorch-softdtw-cuda/pull/23", line=("differences = ", "x[:, :, None] - y[:, None]"), cause="request alone", never="fragmentation:|checkpoint",
         capacity_mb=2048)
def distances_by_broadcasting(mended):
    def distances(x, y):
        if mended:
            return x.square().sum(-1)[:, :, None] + y.square().sum(-1)[:, None] - 2 * x @ y.transpose(1, 2)
        differences = x[:, :, None] - y[:, None]
        return differences.square().sum(-1)

    with torch.no_grad():
        for length in (200, 400, 600, 800):
            x, y = torch.randn(8, length, 128, device="cuda"), torch.randn(8, length, 128, device="cuda")
            distances(x, y).min(-1)


@program("oom", thread="https://pytorch.org/docs/stable/notes/faq.html#my-out-of-memory-exception-handler-can-t-allocate-memory", line=("hidden = ", "layer(", "except torch.cuda.OutOfMemoryError"), keeper="__traceback__",
         cause="exception|error|traceback|attempt", capacity_mb=1024)
def a_smaller_batch_inside_the_handler(mended):
    layers = nn.ModuleList(nn.Linear(1024, 4096) for _ in range(4)).cuda()

    def run(rows):
        x = torch.randn(rows, 1024, device="cuda")
        hidden = [layer(x) for layer in layers]
        return torch.cat(hidden, 1).sum()

    too_large = False
    with torch.no_grad():
        try:
            run(16384)
        except torch.cuda.OutOfMemoryError:
            too_large = True
            if not mended:
                run(2048)
        if mended and too_large:
            run(2048)


@program("oom", thread="https://pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory", line=("nn.Linear(features, 4096)", "model = "), cause="parameter|weight|larger than|more than",
         never="checkpoint|smaller batch", capacity_mb=1024)
def a_linear_layer_that_is_too_large(mended):
    """Weights use memory by the product of features in and out: no batch is small enough."""
    features = 64 * 7 * 7 if mended else 64 * 56 * 56
    model = nn.Sequential(nn.Flatten(), nn.Linear(features, 4096, device="cuda"), nn.ReLU(), nn.Linear(4096, 10, device="cuda"))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.randn(2, features, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


# Sound programs that were reported.


@program("sound", thread="https://github.com/pytorch/pytorch/issues/95668")
def the_workspace_of_cublas_stays():
    def work():
        model = nn.Linear(256, 256).cuda()
        return model(torch.randn(64, 256, device="cuda")).sum().item()

    for _ in range(20):
        work()


@program("sound", thread="https://discuss.pytorch.org/t/how-to-delete-pytorch-objects-correctly-from-memory/947")
def a_deleted_tensor_is_cached():
    test = torch.zeros(8192, 8192, device="cuda")
    del test
    for _ in range(20):
        torch.zeros(4096, 4096, device="cuda").mul_(2)


@program("sound", thread="https://github.com/pytorch/pytorch/issues/97432")
def pinned_batches_that_are_fetched_ahead():
    loader = DataLoader(TensorDataset(torch.zeros(512, 4096)), batch_size=8, pin_memory=True, num_workers=2, prefetch_factor=8, persistent_workers=True)
    model = nn.Linear(4096, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for (batch,) in loader:
            model(batch.to("cuda", non_blocking=True)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()


@program("sound", thread="https://github.com/pytorch/pytorch/issues/173382")
def a_gap_that_empty_cache_leaves():
    model = nn.Sequential(nn.Embedding(3000, 512), nn.Linear(512, 1500), nn.Linear(1500, 512)).cuda().eval()
    for tokens in (300, 500, 400) * 6:
        with torch.no_grad():
            output = model(torch.zeros(2, tokens, dtype=torch.long, device="cuda"))
        kept = output[:, -1].clone()
        del output
        torch.cuda.empty_cache()
    return kept


@program("sound", thread="https://github.com/mlverse/torch/issues/872")
def trials_of_several_sizes():
    for width in (256, 1024, 512, 768, 384, 640):
        model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 10)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(10):
            nn.functional.cross_entropy(model(torch.randn(128, 256, device="cuda")), labels(128)).backward()
            optimizer.step()
            optimizer.zero_grad()


@program("sound", thread="https://github.com/pytorch/pytorch/pull/85447")
def a_workspace_for_each_stream_of_a_pool():
    """cuBLAS has a workspace for each pair of handle and stream: with the streams' number it stops."""
    model, streams = nn.Linear(512, 512).cuda(), [torch.cuda.Stream() for _ in range(6)]
    with torch.no_grad():
        for request in range(60):
            with torch.cuda.stream(streams[request % 6 if request > 30 else request // 6]):
                model(torch.randn(32, 512, device="cuda")).sum().item()


@program("sound", thread="https://github.com/fadel/pytorch_ema/issues/1")
def shadows_of_all_parameters():
    model = dense(512, 4)
    shadows = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(40):
        model(torch.randn(64, 512, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for shadow, parameter in zip(shadows, model.parameters()):
                shadow.sub_(0.01 * (shadow - parameter))


if __name__ == "__main__":
    main()
