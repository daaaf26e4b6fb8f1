# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Random numbers of a planned program: simulated kernels draw none, so PyTorch's CPU generator draws others of the same distribution. values.py loads this.

    draws = Draws(torch, held, seed)
    draws.fill(handle, target, numbers, kwargs, is_named)   # uniform_, normal_, random_, bernoulli_, ...; is_named: into the keyword `out`, as randperm
    draws.functional(handle, args, kwargs)                  # multinomial

Each call has a generator of its own, seeded by its number: what is drawn does not depend on who looks, and when. Another seed gives another run of the same program.

Failure: what cannot be drawn is not known.
"""

class Draws:
    def __init__(self, torch, held, seed):
        self.torch, self.held, self.seed, self.calls = torch, held, seed, 0

    def generator(self):
        self.calls += 1
        return self.torch.Generator(self.held.cpu).manual_seed((self.seed << 32) + self.calls)

    def fill(self, handle, target, numbers, kwargs, is_named):
        """The target is drawn from now on; its numbers are, when somebody looks. False: it cannot be."""
        torch = self.torch
        numbers = [each for each in numbers if not isinstance(each, torch.Generator)]
        kwargs = {name: value for name, value in (kwargs or {}).items() if name not in ("generator", "out")}
        if not self.held.is_held(target) or any(isinstance(each, self.held.tensor) for each in (*numbers, *kwargs.values())):
            return False
        generator = self.generator()

        def write(bytes_):
            drawn = torch.empty(bytes_.shape, dtype=bytes_.dtype, device="cpu")
            if is_named:
                handle(*numbers, **kwargs, generator=generator, out=drawn)
            else:
                handle(drawn, *numbers, **kwargs, generator=generator)
            bytes_.copy_(drawn)

        self.held.owe(target, write)
        return True

    def functional(self, handle, args, kwargs):
        """What the operator gives for arguments that are CPU tensors."""
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "generator"}
        return handle(*args, **kwargs, generator=self.generator())
