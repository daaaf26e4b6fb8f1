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
AHEAD = 2 * WORKERS
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
    """Bytes in use there once all that is fetched ahead is there, beside the batch in hand, and no more comes."""
    before, used = 0, 1
    while used < AHEAD * BATCH_BYTES or used != before:
        time.sleep(0.1)
        status = os.statvfs(shared)
        before, used = used, (status.f_blocks - status.f_bfree) * status.f_bsize
    return used


def main(method):
    model = torch.nn.Linear(8, 1).cuda()
    data = DataLoader(Numbers(), batch_size=1, num_workers=WORKERS, multiprocessing_context=method, worker_init_fn=touch_cuda)
    sums = []
    used = 0
    for index, batch in enumerate(data):
        if index == 0:
            used = full_queue("/dev/shm") >> 20
        sums.append(float(batch[0, 0]) + float(model(batch[:, :8].cuda()).sum()) * 0)
    print("batches", sum(sums), len(sums))
    print(used, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
