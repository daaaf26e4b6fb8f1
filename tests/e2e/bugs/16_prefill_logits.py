# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Generation for long prompts. Only the last position's logits are used."""
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(nn.functional.gelu(self.up(x))), (k, v)


class Model(nn.Module):
    def __init__(self, d=512, depth=4, vocab=128256):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList([Layer(d, 8) for _ in range(depth)])
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids, cache=None):
        x, new = self.embed(ids), []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, cache[i] if cache else None)
            new.append(kv)
        logits = self.lm_head(x)
        logits = logits.float()
        return logits, new


@torch.inference_mode()
def generate(model, prompt, new_tokens=12):
    logits, cache = model(prompt)
    out = []
    for _ in range(new_tokens):
        token = logits[:, -1].argmax(-1, keepdim=True)
        out.append(token)
        logits, cache = model(token, cache)
    return torch.cat(out, 1)


with torch.device("cuda"):
    model = Model().to(torch.bfloat16).eval()
for request in range(4):
    generate(model, torch.zeros(1, 8192, dtype=torch.long, device="cuda"))
    print("request", request, "peak", torch.cuda.max_memory_allocated() >> 20, "MiB")
