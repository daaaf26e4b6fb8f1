# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Which experts a router chooses whose scores nobody computed. values.py loads this.

    routing = Routing(values, {"routing": "balanced", "draw": 0})
    after = routing.choosing(handle, "topk")     # after the operator: its indices are experts

"routing" is what --routing says: "balanced", "worst" (the same experts for each token) or a seed. "": what looks like a router, a topk of few out of not many for more tokens than
these, chooses by chance, near balance; the notes count it as `routed`, so that the worst is tried as well.

Failure: indices of other operators are left as they are.
"""

import math

MOST_EXPERTS = 1024  # more are a vocabulary
FEW_EXPERTS, MOST_CHOSEN = 256, 16  # of what is taken for a router where nobody says so


def is_router(shape, chosen):
    return 0 < chosen <= MOST_CHOSEN and chosen < shape[-1] <= FEW_EXPERTS and math.prod(shape[:-1]) >= shape[-1]


class Routing:
    def __init__(self, values, options):
        self.values, self.torch, self.cpu = values, values.torch, values.cpu
        self.wanted, self.draw, self.calls = options.get("routing", ""), options.get("draw", 0), 0

    def may_choose(self, overload):
        return str(overload) == "aten.topk.default" or (self.wanted != "" and str(overload) == "aten.argmax.default")

    def choosing(self, handle, name):
        values = self.values
        compute, held = values.functional(handle, name), values.held

        def after(result, args, kwargs):
            compute(result, args, kwargs)
            source, indices = args[0], values.results(result)[-1]
            place, otherwise = (2, -1) if name == "topk" else (1, None)
            dimension = args[place] if len(args) > place else otherwise
            if not source.is_floating_point() or source.dim() < 2 or dimension not in (-1, source.dim() - 1) or source.shape[-1] > MOST_EXPERTS or not held.is_held(indices):
                return
            each = indices.shape[-1] if name == "topk" else 1
            if not self.wanted and not is_router(source.shape, each):
                return
            with values.no_function():
                if held.seen(indices)[1] != held.UNKNOWN or not values.may_compute():
                    return
                held.put(indices, self.experts(indices.numel(), source.shape[-1], each).reshape(indices.shape), held.KNOWN if self.wanted else held.DRAWN)
            if self.wanted:
                values.run.pinned("--routing")
            else:
                values.decisions.count("routed")

        return after

    def experts(self, number, experts, each):
        """For number / each tokens in a row, `each` different ones of so many experts."""
        torch, rows = self.torch, number // max(each, 1)
        if self.wanted == "worst":
            return torch.arange(each, device=self.cpu).repeat(rows)
        if self.wanted == "balanced":
            return torch.arange(number, device=self.cpu) % experts
        self.calls += 1
        generator = torch.Generator(self.cpu).manual_seed((int(self.wanted) if self.wanted else self.draw << 32) + self.calls)
        return torch.rand(rows, experts, generator=generator, device=self.cpu).topk(each).indices.flatten()
