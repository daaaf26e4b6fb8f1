# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
import sys, torch
stream = torch.cuda.Stream()
big = torch.zeros(300 << 20, dtype=torch.uint8, device="cuda"); del big
for _ in range(24):
    with torch.cuda.stream(torch.cuda.Stream() if "new" in sys.argv else stream):
        torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
