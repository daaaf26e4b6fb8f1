# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import ctypes, torch
cudart = ctypes.CDLL("libcudart.so.13")
w = torch.zeros(256, 256, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(60):                                             # ends in an out of memory with SIMCUDA_CAPACITY_MB=4096
    p = ctypes.c_void_p()
    cudart.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(64 << 20))   # TRUTH
    (torch.randn(64, 256, device="cuda") @ w).mean().backward(); optimizer.step(); optimizer.zero_grad()
torch.zeros(1 << 28, device="cuda")
