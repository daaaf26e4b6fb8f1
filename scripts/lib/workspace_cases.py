# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Operations whose workspaces are measured, of shapes that people use: each asks one library for one size (a recurrent net: for two).

    for name, prepare in cases(quick=False):
        run = prepare()      # makes the tensors
        run()                # the operation

A case that this PyTorch or GPU cannot run raises, and is left out with what it said.
"""

import itertools

import torch

BATCH = 32
# channels, size of the image, output channels, filter, stride, padding, groups
RESNET = [(3, 224, 64, 7, 2, 3, 1), (64, 56, 64, 1, 1, 0, 1), (64, 56, 64, 3, 1, 1, 1), (64, 56, 256, 1, 1, 0, 1), (256, 56, 128, 1, 1, 0, 1),
          (128, 56, 128, 3, 2, 1, 1), (128, 28, 512, 1, 1, 0, 1), (128, 28, 128, 3, 1, 1, 1), (256, 28, 256, 3, 2, 1, 1), (256, 14, 256, 3, 1, 1, 1),
          (256, 14, 1024, 1, 1, 0, 1), (512, 14, 512, 3, 2, 1, 1), (512, 7, 512, 3, 1, 1, 1), (512, 7, 2048, 1, 1, 0, 1)]
UNET = [(1, 256, 64, 3, 1, 1, 1), (64, 256, 64, 3, 1, 1, 1), (128, 128, 128, 3, 1, 1, 1), (512, 32, 512, 3, 1, 1, 1), (1024, 32, 512, 3, 1, 1, 1), (64, 256, 2, 1, 1, 0, 1)]
CONVNEXT = [(3, 224, 96, 4, 4, 0, 1), (96, 56, 96, 7, 1, 3, 96), (96, 56, 192, 2, 2, 0, 1), (192, 28, 192, 7, 1, 3, 192), (384, 14, 384, 7, 1, 3, 384), (768, 7, 768, 7, 1, 3, 768)]
# Of examples/train_conv.py: images of 64 x 64, and the last batch of its epoch.
SMALL = [(3, 64, 64, 3, 1, 1, 1), (64, 64, 64, 3, 1, 1, 1), (64, 64, 128, 3, 2, 1, 1), (64, 64, 128, 1, 2, 0, 1), (128, 32, 128, 3, 1, 1, 1), (128, 32, 256, 3, 2, 1, 1),
         (128, 32, 256, 1, 2, 0, 1), (256, 16, 256, 3, 1, 1, 1), (256, 16, 512, 3, 2, 1, 1), (256, 16, 512, 1, 2, 0, 1), (512, 8, 512, 3, 1, 1, 1)]
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
DIRECTIONS = ("forward", "data", "filter")


def empty(*shape, dtype=torch.float32, **options):
    return torch.zeros(shape, dtype=dtype, device="cuda", **options)


def convolution(shape, batch, dtype, layout, direction):
    channels, size, outputs, taps, stride, padding, groups = shape

    def prepare():
        image = empty(batch, channels, size, size, dtype=TYPES[dtype]).contiguous(memory_format=LAYOUTS[layout])
        weight = empty(outputs, channels // groups, taps, taps, dtype=TYPES[dtype]).contiguous(memory_format=LAYOUTS[layout])
        settings = ([stride] * 2, [padding] * 2, [1] * 2, False, [0] * 2, groups)

        def forward():
            return torch.ops.aten.convolution(image, weight, None, *settings)

        if direction == "forward":
            return forward
        result = forward()
        mask = [direction == "data", direction == "filter", False]
        return lambda: torch.ops.aten.convolution_backward(result, image, weight, None, *settings, mask)

    return prepare


def attention(batch, heads, length, width, causal, dtype, backward):
    def prepare():
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q, k, v = (empty(batch, heads, length, width, dtype=TYPES[dtype], requires_grad=True) for _ in range(3))

        def forward():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        if not backward:
            return forward
        result = forward()
        gradient = torch.zeros_like(result)
        return lambda: torch.autograd.grad(result, (q, k, v), gradient, retain_graph=True)

    return prepare


def recurrent(kind, dtype, steps, batch, inputs, hidden, layers, bidirectional, training):
    def prepare():
        net = getattr(torch.nn, kind)(inputs, hidden, layers, bidirectional=bidirectional).cuda().to(TYPES[dtype]).train(training)
        net.flatten_parameters()
        data = empty(steps, batch, inputs, dtype=TYPES[dtype])

        def run():
            with torch.set_grad_enabled(training):
                return net(data)

        return run

    return prepare


def linear_algebra(function, size, dtype, batch=()):
    def prepare():
        matrix = torch.eye(size, dtype=dtype, device="cuda").expand(*batch, size, size).contiguous() * 2
        if function == "solve":
            right = empty(*batch, size, 8, dtype=dtype)
            return lambda: torch.linalg.solve(matrix, right)
        return lambda: getattr(torch.linalg, function)(matrix)

    return prepare


def transform(function, shape, dtype=torch.float32):
    def prepare():
        data = empty(*shape, dtype=dtype)
        return lambda: getattr(torch.fft, function)(data)

    return prepare


def sparse(product, size, columns, dtype=torch.float32):
    def prepare():
        diagonal = torch.arange(size + 1)
        matrix = torch.sparse_csr_tensor(diagonal, diagonal[:-1], torch.ones(size, dtype=dtype), (size, size)).cuda()
        other = matrix if product == "SpGEMM" else empty(size, columns, dtype=dtype) if product == "SpMM" else empty(size, dtype=dtype)
        return lambda: matrix @ other

    return prepare


def all_convolutions(quick):
    shapes = [RESNET[2], CONVNEXT[1]] if quick else [*RESNET, *UNET, *CONVNEXT]
    for shape, dtype, layout, direction in itertools.product(shapes, ("f32",) if quick else TYPES, LAYOUTS, DIRECTIONS):
        batch = 8 if quick or shape in UNET else BATCH
        yield f"convolution {direction} {batch} x {shape} {dtype} {layout}", convolution(shape, batch, dtype, layout, direction)


def small_convolutions(quick):
    for shape, batch, direction in itertools.product(() if quick else SMALL, (64, 21), DIRECTIONS):
        yield f"small convolution {direction} {batch} x {shape} f32 nchw", convolution(shape, batch, "f32", "nchw", direction)


def all_attention(quick):
    for dtype, causal, backward, (batch, heads, length, width) in itertools.product(
            ("bf16",) if quick else ("bf16", "f16"), (True,) if quick else (True, False), (False, True),
            [(2, 8, 256, 64)] if quick else [(8, 12, 1024, 64), (2, 32, 2048, 128), (2, 32, 4096, 128), (32, 16, 256, 64)]):
        name = f"attention {'backward' if backward else 'forward'} {batch}x{heads}x{length}x{width} {dtype} causal={causal}"
        yield name, attention(batch, heads, length, width, causal, dtype, backward)


def all_recurrent(quick):
    for kind, dtype, training, (steps, batch, inputs, hidden, layers, both) in itertools.product(
            ("LSTM",) if quick else ("LSTM", "GRU"), ("f32",) if quick else ("f32", "f16"), (True,) if quick else (True, False),
            [(20, 4, 32, 64, 2, False)] if quick else [(64, 32, 256, 256, 1, False), (128, 64, 512, 512, 2, False), (512, 32, 256, 512, 2, True)]):
        yield f"{kind} {dtype} {steps}x{batch}x{inputs} hidden={hidden} layers={layers} both={both} training={training}", recurrent(
            kind, dtype, steps, batch, inputs, hidden, layers, both, training)


def all_linear_algebra(quick):
    functions = ("cholesky", "qr", "eigh") if quick else ("cholesky", "qr", "eigh", "svd", "lu_factor", "solve", "inv", "eigvals")
    types = (torch.float32,) if quick else (torch.float32, torch.float64)
    for function, dtype, size in itertools.product(functions, types, (96,) if quick else (64, 256, 512, 1024, 2048, 4096)):
        yield f"{function} {size} {dtype}", linear_algebra(function, size, dtype)


def all_transforms(quick):
    shapes = {"fft": [(8, 1000)]} if quick else {
        "fft": [(64, 1024), (64, 1000), (64, 4099), (8, 1 << 20)], "rfft": [(64, 16000), (64, 65536)], "irfft": [(64, 8001)],
        "fft2": [(16, 256, 256), (16, 224, 224), (16, 127, 127)], "rfft2": [(16, 3, 224, 224), (16, 64, 32, 32)], "fftn": [(64, 64, 64)]}
    for function, lengths in shapes.items():
        for shape in lengths:
            yield f"{function} {shape}", transform(function, shape, torch.complex64 if function == "irfft" else torch.float32)


def all_sparse(quick):
    for product, size in itertools.product(("SpMM",) if quick else ("SpMM", "SpMV", "SpGEMM"), (1000,) if quick else (1000, 10_000, 100_000)):
        yield f"{product} {size}", sparse(product, size, 64)


def cases(quick=False, match=""):
    """Every case whose name has `match`; `quick`: a few of each library, for a rehearsal."""
    for group in (all_convolutions, small_convolutions, all_attention, all_recurrent, all_linear_algebra, all_transforms, all_sparse):
        yield from ((name, prepare) for name, prepare in group(quick) if match in name)
