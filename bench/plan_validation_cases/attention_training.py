# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Forward and backward pass of a transformer in fp16, without an optimizer, as optimum's tests/benchmark/benchmark_bettertransformer_training_minimal.py
did in April 2023: five steps that keep their gradients, then the measured ones.

    python attention_training.py opt-350m --batch 4 --length 512 --attention eager
"""

import argparse

import counters
import torch
import transformers

OPT = {"hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096, "num_attention_heads": 16, "word_embed_proj_dim": 512, "do_layer_norm_before": False}
PYTHIA = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 50304}
MODELS = {
    "bert-base": ("BertForMaskedLM", "BertConfig", {}),
    "opt-350m": ("OPTForCausalLM", "OPTConfig", OPT),
    "biogpt": ("BioGptForCausalLM", "BioGptConfig", {}),
    "pythia-410m": ("GPTNeoXForCausalLM", "GPTNeoXConfig", PYTHIA),
}


def model_of(name, attention):
    kind, config, shape = MODELS[name]
    torch.set_default_dtype(torch.float16)
    with torch.device("cuda"):
        model = getattr(transformers, kind)._from_config(getattr(transformers, config)(**shape), attn_implementation=attention)
    torch.set_default_dtype(torch.float32)
    return model.train()


def train(model, inputs):
    """What a round made stays alive in the next one, as there."""
    for number in range(10):
        if number == 5:
            torch.cuda.reset_peak_memory_stats()
        if number >= 5:
            model.zero_grad()
        outputs = model(**inputs)
        loss = outputs.logits.sum()
        loss.backward()
    return torch.cuda.max_memory_allocated()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--attention", choices=("eager", "sdpa"), required=True)
    asked = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    model = model_of(asked.model, asked.attention)
    tokens = torch.randint(model.config.vocab_size - 1, (asked.batch, asked.length)).cuda()
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    counters.say(max_allocated=train(model, inputs))


if __name__ == "__main__":
    main()
