# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Forms in which programs decide by a tensor's values: each asks for 100 GiB where `decide` is true (or, with "not", where it is false).

    gpumemshim plan --device H100 -- python forms.py any          # no GPU has so much, and nobody knows whether it is asked for: the answer must not be "fits"

Of u (floats), b (conditions) and i (integers) no value can be known: they come from a product of large matrices.
"""

import math
import sys

import torch

# What a program writes; a true end of both `FORM` and `not FORM` is within what another value can reach.
FORMS = {
    "any": "b.any()",
    "all": "b.all()",
    "bool": "bool(b[0])",
    "not_any": "(~b).any()",
    "any_dim": "b.view(8, 8).any(dim=1)[0]",
    "all_dim": "b.view(8, 8).all(dim=0)[3]",
    "torch_any": "torch.any(u > 0.5)",
    "item": "u[0].item() > 3",
    "item_sum": "u.sum().item() > 0",
    "float": "float(u.mean()) > 0.1",
    "int": "int(u[3]) > 5",
    "round": "round(u[0].item()) > 2",
    "compare": "u[0] > u[1]",
    "compare_number": "u[0] > 0.25",
    "chained": "0.5 < u[5].item()",
    "and": "b[0] and u[1] > 0.5",
    "or": "b[0] or b[1]",
    "logical_and": "torch.logical_and(b, u > 1).any()",
    "xor": "(b ^ (u > 1)).any()",
    "max": "u.max() > 3",
    "max_item": "u.max().item() > 3",
    "min": "i.min().item() > 7",
    "amax": "u.view(8, 8).amax(dim=1)[0] > 1",
    "argmax": "u.argmax().item() > 3",
    "topk": "u.topk(1).indices.item() > 3",
    "norm": "u.norm().item() > 100",
    "std": "u.std() > 1",
    "mean": "u.mean() > 0.5",
    "count_nonzero": "b.count_nonzero().item() > 32",
    "sum_of_conditions": "b.sum() > 32",
    "sum_of_integers": "i.sum().item() > 9",
    "eq_any": "(i == 3).any()",
    "equal": "torch.equal(i, i.flip(0))",
    "tensor_equal": "i.equal(i.roll(1))",
    "allclose": "torch.allclose(u, u.flip(0))",
    "isclose": "math.isclose(u[0].item(), 0.0)",
    "isin": "torch.isin(i[:4], torch.tensor([3, 4], device='cuda')).any()",
    "tolist": "i.tolist()[0] > 5",
    "tolist_any": "any(b.tolist())",
    "cpu": "u.cpu()[0] > 0.5",
    "cpu_max": "u.cpu().max().item() > 1",
    "to_cpu": "u.to('cpu').sum().item() > 1",
    "cpu_any": "b.cpu().any()",
    "numpy": "u.cpu().numpy()[0] > 0.5",
    "detach_numpy": "float(u.detach().cpu().numpy().max()) > 0.5",
    "non_blocking": "copied(u)[0].item() > 0.5",
    "len_nonzero": "len(b.nonzero()) > 32",
    "numel_nonzero": "b.nonzero().numel() == 0",
    "where": "torch.where(b)[0].shape[0] > 32",
    "argwhere": "torch.argwhere(b).shape[0] > 32",
    "masked_select": "torch.masked_select(u, b).numel() > 32",
    "mask": "u[b].numel() > 32",
    "unique": "len(i.unique()) > 5",
    "slice": "u[: int(i[0])].numel() > 10",
    "range": "len(range(int(i[0]))) > 10",
    "list_index": "[False, *[True] * 64][i[0].item()]",
    "while": "waited(b)",
    "exception": "caught(u)",
    "dictionary": "{0: False}.get(i[0].item(), True)",
    "token": "i[0].item() == 7",
    "token_next": "i[0].item() % 10 + 1 == 8",
    "token_in": "i[0].item() in (7, 9)",
    "token_in_set": "i[0].item() in {7, 9}",
    "token_list": "any(each == 7 for each in i.tolist())",
    "token_int": "int(i[0]) == 7",
    "token_numpy": "i.cpu().numpy()[0] == 7",
    "token_returned": "choice(i) == 7",
    "token_elif": "elsewhere(i)",
    "token_table": "[False, False, True][i[0].item()]",
    "between": "0.3 < u[0].item() < 0.7",
    "below": "u[0].item() < -1",
    "far": "u[0].item() > 1e9",
    "least": "min(u[0].item(), -2.0) < -2.0",
    "finite": "math.isfinite(u[0].item()) and u[0].item() < -3",
    "generator": "next(each > 0.5 for each in u)",
}


def copied(tensor):
    host = torch.empty(tensor.shape, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    torch.cuda.synchronize()
    return host


def waited(conditions):
    turns = 0
    while turns < 3 and conditions.all():
        turns += 1
    return turns == 3


def choice(tokens):
    return tokens[0].item()


def elsewhere(tokens):
    """One comparison hides the other: both would hold in a run where all do."""
    token = tokens[1].item()
    if token == 5:
        return False
    elif token == 6:
        return True
    return False


def caught(values):
    try:
        if values.sum() > 5:
            raise ValueError
    except ValueError:
        return True
    return False


def main(name, wants):
    left, right = torch.randn(3000, 3000, device="cuda"), torch.randn(3000, 3000, device="cuda")
    u = (left @ right)[0, :64].clone()
    b, i = u > 0.2, (u * 10).long()
    decided = bool(eval(FORMS[name], {"torch": torch, "math": math, "copied": copied, "waited": waited, "caught": caught, "choice": choice, "elsewhere": elsewhere, "u": u, "b": b, "i": i}))
    if decided == wants:
        kept = [torch.empty(10 << 30, dtype=torch.uint8, device="cuda") for _ in range(10)]
        print(len(kept))


if __name__ == "__main__":
    main(sys.argv[1], "not" not in sys.argv[2:])
