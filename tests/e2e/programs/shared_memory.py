# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training loop whose three DataLoader workers need most of a container's /dev/shm, and touch CUDA once where they may. It knows nothing of the
recorder.

    shared_memory.py fork|spawn|forkserver
"""

import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

WORKERS = 3
BATCH_BYTES = 7 << 20  # of 3 x 2 that wait in /dev/shm; two more are in hand while one is fetched: 56 MiB at most


class Numbers(Dataset):
    def __len__(self):
        return 5 * WORKERS

    def __getitem__(self, index):
        return torch.full((BATCH_BYTES // 4,), float(index))


def touch_cuda(_):
    if not torch.cuda._is_in_bad_fork():
        torch.ones(4, device="cuda")


def full_queue(shared):
    """The most that is in use there while the workers fill their queues."""
    status = os.statvfs(shared)
    return (status.f_blocks - status.f_bfree) * status.f_bsize >> 20


def main(method):
    model = torch.nn.Linear(8, 1).cuda()
    data = DataLoader(Numbers(), batch_size=1, num_workers=WORKERS, multiprocessing_context=method, worker_init_fn=touch_cuda)
    sums = []
    used = 0
    for index, batch in enumerate(data):
        if index == 0:
            time.sleep(3)  # until all that is fetched ahead is there
            used = full_queue("/dev/shm")
        sums.append(float(batch[0, 0]) + float(model(batch[:, :8].cuda()).sum()) * 0)
    print("batches", sum(sums), len(sums))
    print(used, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
