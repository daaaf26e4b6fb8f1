# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""How trainWithMemoryDebug makes and trains a model where the program gives no functions of its own: transformers' and peft's LoRA.

config: `model` (a module, or a function that makes one) or `model_name` (for AutoModelForCausalLM); `r`, `alpha`, `dropout`, `target_modules` of the adapters
(no `r`: none); `lr` (1e-4), `epochs` (1), `max_steps`, `device` (the GPU).
"""

import contextlib


def create_model(config):
    """The model with its adapters, on config["device"]."""
    import torch

    model = config.get("model")
    if callable(model) and not isinstance(model, torch.nn.Module):
        model = model()
    if model is None:
        if "model_name" not in config:
            raise ValueError("the config has neither `model` nor `model_name`. Name one, or pass create_model=FUNCTION")
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(config["model_name"])
    if config.get("r"):
        from peft import LoraConfig, get_peft_model

        chosen = {"target_modules": config["target_modules"]} if config.get("target_modules") else {}
        model = get_peft_model(model, LoraConfig(r=config["r"], lora_alpha=config.get("alpha", config["r"]), lora_dropout=config.get("dropout", 0.0), **chosen))
    return model.to(config.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))


def train_model(model, dataloader, config, precision="fp16"):
    """Trains it: a batch is a dict that the model takes, or a tensor of token ids, which are its labels too. precision: fp16, bf16 (autocast) or fp32."""
    import torch

    device = next(model.parameters()).device
    kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=config.get("lr", 1e-4))
    model.train()
    done, most = 0, config.get("max_steps")
    for _ in range(config.get("epochs", 1)):
        for batch in dataloader:
            if most is not None and done >= most:
                return model
            inputs = {key: value.to(device) for key, value in batch.items()} if isinstance(batch, dict) else {"input_ids": batch.to(device), "labels": batch.to(device)}
            with torch.autocast(device.type, kinds[precision]) if precision in kinds else contextlib.nullcontext():
                output = model(**inputs)
            loss = output.loss if hasattr(output, "loss") else output
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            done += 1
    return model
