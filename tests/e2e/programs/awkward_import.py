# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Installed by a test as a package that does, when it is imported, what $AWKWARD says: nothing that could be done before a fork."""

import os
import subprocess
import threading

import torch

WHAT = os.environ.get("AWKWARD", "")
if WHAT == "cuda":
    KEPT = torch.zeros(1, device="cuda")
elif WHAT == "capability":
    CAPABILITY = torch.cuda.get_device_capability()
elif WHAT == "thread":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
elif WHAT == "process":
    CHILD = subprocess.Popen(["sleep", "1000"])
elif WHAT == "dies" and "--batch-size" not in " ".join(os.sys.argv):
    os._exit(3)
