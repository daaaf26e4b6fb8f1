# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The memory debug tools' debug_lora_training with transformers' and peft's own classes: what it says of the memory, beside PyTorch's counters. The last line
is JSON.

    python compat_lora.py
"""

import json

import torch
from gpumemshim.compat.trainWithMemoryDebug import debug_lora_training
from transformers import LlamaConfig, LlamaForCausalLM

MIB = 1 << 20
created = []


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256))


def batches():
    created.append(torch.cuda.memory_allocated() / MIB)  # asked for once, when the model is there
    return iter([torch.randint(0, 1000, (2, 64)) for _ in range(3)])


class Data:
    __iter__ = staticmethod(batches)


config = {"model": model, "r": 8, "alpha": 16, "target_modules": ["q_proj", "v_proj"], "max_steps": 3}
trained, results = debug_lora_training(
    config=config, dataloader=Data(), precision="fp16", pkg="matplotlib", version="3.8.0", knowledge_type="code", log_dir="logs/training_debug")
said = [results[f"{stage}_analysis"]["summary"]["total_memory_mb"] for stage in ("creation", "training")]
counted = [created[0], torch.cuda.memory_allocated() / MIB]
print()
print(json.dumps({"said": said, "counted": counted, "class": type(trained).__name__, "issues": sum(map(len, results["memory_issues"].values()))}))
