# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What debug_memory_usage shows where nobody named a model: two layers of attention and MLP with LoRA beside the frozen weights, and three batches. PyTorch is all it needs.

    setup()     # as a file of --setup would define it: create_model, dataloader, train_model, config
"""

NOTICE = "[INFO] 没有指定模型，使用内置的LoRA示例: no model was named, so this shows a built-in LoRA example. Yours: --model_name NAME, or --setup FILE"
VOCABULARY, WIDTH, LAYERS, BATCH, LENGTH, BATCHES = 1000, 256, 2, 4, 64, 3


def create_model(config):
    """Frozen linear layers, with adapters of rank config["r"], scaled by config["alpha"] / r."""
    import torch

    rank, alpha = config.get("r", 8), config.get("alpha", 16)

    class LoraLinear(torch.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.base = torch.nn.Linear(inputs, outputs).requires_grad_(False)
            self.lora_A, self.lora_B = torch.nn.Linear(inputs, rank, bias=False), torch.nn.Linear(rank, outputs, bias=False)

        def forward(self, inputs):
            return self.base(inputs) + self.lora_B(self.lora_A(inputs)) * (alpha / rank)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.o_proj = (LoraLinear(WIDTH, WIDTH) for _ in range(4))
            self.mlp = torch.nn.Sequential(LoraLinear(WIDTH, 4 * WIDTH), torch.nn.GELU(), LoraLinear(4 * WIDTH, WIDTH))
            self.attention_norm, self.mlp_norm = (torch.nn.LayerNorm(WIDTH).requires_grad_(False) for _ in range(2))

        def forward(self, hidden):
            seen = self.attention_norm(hidden)
            attended = torch.nn.functional.scaled_dot_product_attention(self.q_proj(seen), self.k_proj(seen), self.v_proj(seen), is_causal=True)
            hidden = hidden + self.o_proj(attended)
            return hidden + self.mlp(self.mlp_norm(hidden))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(VOCABULARY, WIDTH).requires_grad_(False)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
            self.lm_head = torch.nn.Linear(WIDTH, VOCABULARY).requires_grad_(False)

        def forward(self, input_ids, labels):
            hidden = self.embed(input_ids)
            for layer in self.layers:
                hidden = layer(hidden)
            return torch.nn.functional.cross_entropy(self.lm_head(hidden).flatten(0, 1), labels.flatten())

    return Model().to(config.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))


def dataloader():
    import torch

    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(BATCHES)]


def setup():
    """The definitions, after a line that says whose they are."""
    print(NOTICE)
    return {"config": {"r": 8, "alpha": 16}, "create_model": create_model, "dataloader": dataloader}
