# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Generates 150 tokens with a model of LLMs-from-scratch, greedily, with random weights, as its pages for Llama 3.2 and Qwen3 do.

    python from_scratch_generate.py qwen3 --prompt 23 [--cache] [--batch 8]
"""

import argparse
import importlib
import inspect
import sys
import unittest.mock

import counters
import torch

MODELS = {
    "llama3": ("llama3", "Llama3Model", "LLAMA32_CONFIG_1B"),
    "llama3-fast": ("llama3", "Llama3ModelFast", "LLAMA32_CONFIG_1B"),
    "qwen3": ("qwen3", "Qwen3Model", "QWEN_CONFIG_06_B"),
}


# What the package imports for plots and text, neither of which is made here.
UNUSED = ("matplotlib", "matplotlib.pyplot", "matplotlib.ticker", "tiktoken", "tiktoken.load")


def parts(asked):
    """The model's class, its configuration and the function that generates: the package has them three times, without and with a cache of keys and values."""
    module, name, shape = MODELS[asked.model]
    package = "llms_from_scratch"
    config = getattr(importlib.import_module(f"{package}.{module}"), shape)
    if asked.cache:
        package += ".kv_cache_batched" if asked.batch > 1 else ".kv_cache"
        generate = importlib.import_module(f"{package}.generate").generate_text_simple
    elif asked.batch > 1:
        generate = importlib.import_module(f"{package}.ch04").generate_text_simple
    else:
        generate = importlib.import_module(f"{package}.ch05").generate
    return getattr(importlib.import_module(f"{package}.{module}"), name), config, generate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--prompt", type=int, required=True, help="its tokens")
    parser.add_argument("--cache", action="store_true", help="of keys and values")
    parser.add_argument("--batch", type=int, default=1)
    asked = parser.parse_args()
    for name in UNUSED:
        sys.modules.setdefault(name, unittest.mock.MagicMock())
    kind, config, generate = parts(asked)
    torch.nn.init.kaiming_uniform_ = torch.nn.init.normal_ = lambda tensor, *_, **__: tensor  # values do not matter, and take a minute
    model = kind(config).to("cuda")
    tokens = torch.randint(1000, (asked.batch, asked.prompt)).to("cuda")
    more = {"top_k": 1, "temperature": 0.0} if "top_k" in inspect.signature(generate).parameters else {}
    generate(model=model, idx=tokens, max_new_tokens=150, context_size=config["context_length"], **more)
    counters.say()


if __name__ == "__main__":
    main()
