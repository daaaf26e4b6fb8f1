# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""GPUMemoryProfiler in a small LoRA training: two adapters beside a frozen matrix, with a record for each part of a step.

    python examples/compat/example_usage.py                              on a GPU
    gpumemshim simulate -- python examples/compat/example_usage.py       without one
"""

import torch

from gpumemshim.compat.memoryCheck import GPUMemoryProfiler

WIDTH, RANK, EPOCHS, BATCHES = 1024, 8, 2, 3


def main():
    if not torch.cuda.is_available():
        print("CUDA不可用，使用 `gpumemshim simulate -- python examples/compat/example_usage.py`")
        return
    profiler = GPUMemoryProfiler(log_dir="logs/lora_training")
    profiler.record("训练开始")
    base = torch.randn(WIDTH, WIDTH, device="cuda")
    lora_A = torch.randn(RANK, WIDTH, device="cuda", requires_grad=True)
    lora_B = torch.randn(WIDTH, RANK, device="cuda", requires_grad=True)
    optimizer = torch.optim.AdamW([lora_A, lora_B])
    parameters = lora_A.numel() + lora_B.numel()
    profiler.record_detailed("LoRA模型创建", tensor_info={"lora_A": lora_A, "lora_B": lora_B}, model_info={"total_params": parameters + base.numel(), "trainable_params": parameters})
    for epoch in range(EPOCHS):
        profiler.record(f"Epoch {epoch + 1} 开始")
        for _ in range(BATCHES):
            batch = torch.randn(256, WIDTH, device="cuda")
            loss = (batch @ base + batch @ lora_A.T @ lora_B.T).square().mean()
            profiler.record("前向传播", f"loss={loss.item():.4f}")
            loss.backward()
            profiler.record("反向传播")
            optimizer.step()
            optimizer.zero_grad()
            profiler.record("参数更新")
    profiler.print_report()
    print(profiler.generate_summary_report())
    profiler.save_to_json()
    profiler.cleanup()


if __name__ == "__main__":
    main()
