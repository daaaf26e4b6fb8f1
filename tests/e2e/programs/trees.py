# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A training job as a tree of processes. It knows nothing of the recorder; each process appends to the file $TREES_LOG who it is.

    trees.py loader fork|spawn|forkserver      a training loop whose batches two pinning DataLoader workers bring
    trees.py spawn cpu|cuda                    two workers of torch.multiprocessing that train; `cuda`: the parent does too
    trees.py ranked                            one rank of torchrun
    trees.py forks                             os.fork in the middle of training
    trees.py starts                            a training that another one starts: by exec in a forked child, and by subprocess
    trees.py leaf                              a training by itself
"""

import os
import subprocess
import sys

import torch
from torch.utils.data import DataLoader, Dataset


def note(role, cuda):
    """In one write, so that lines of many processes stay whole."""
    with open(os.environ["TREES_LOG"], "a", encoding="ascii") as log:
        log.write(f"{os.getpid()}\t{os.getppid()}\t{role}\t{int(cuda)}\n")


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.full((64,), float(index))


def note_worker(_):
    note("loader worker", torch.cuda.is_initialized() and not torch.cuda._is_in_bad_fork())


def train(batches, device=0):
    model = torch.nn.Linear(64, 64).to(f"cuda:{device}")
    optimizer = torch.optim.Adam(model.parameters())
    for batch in batches:
        model(batch.to(f"cuda:{device}", non_blocking=True)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def some_batches():
    return [torch.randn(4, 64) for _ in range(3)]


def loader(method):
    note("trainer", True)
    data = DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True, multiprocessing_context=method, worker_init_fn=note_worker)
    seen = []
    for _ in range(2):
        batches = list(data)
        train(batches)
        seen.append(sum(int(batch.sum()) for batch in batches))
        assert all(batch.is_pinned() for batch in batches)
    print("batches", seen)


def spawned(index):
    note(f"worker {index}", True)
    train(some_batches())


def spawn(where):
    note("parent", where == "cuda")
    if where == "cuda":
        train(some_batches())
    torch.multiprocessing.spawn(spawned, nprocs=2)
    print("joined")


def ranked():
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    note(f"rank {rank}", True)
    model = train(some_batches(), local_rank)
    # Through torchrun's own store: gloo's threads now and then abort the interpreter's end ("terminate called without an active exception").
    store = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    store.add("parameters", sum(p.numel() for p in model.parameters()))
    store.set(f"added by {rank}", "1")
    if rank == 0:
        store.wait([f"added by {other}" for other in range(int(os.environ["WORLD_SIZE"]))])
        print("reduced", store.add("parameters", 0))


def forks():
    note("trainer", True)
    train(some_batches())
    child = os.fork()
    if child == 0:
        note("forked", False)
        os._exit(int(torch.randn(3, 3).numel()))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    train(some_batches())
    print("child", code)


def starts():
    note("trainer", True)
    train(some_batches())
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, __file__, "leaf"])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done = subprocess.run([sys.executable, __file__, "leaf"])
    print("children", code, done.returncode)


def leaf():
    note("leaf", True)
    train(some_batches())
    sys.stdout.flush()
    raise SystemExit(7)


if __name__ == "__main__":
    {"loader": loader, "spawn": spawn, "ranked": ranked, "forks": forks, "starts": starts, "leaf": leaf}[sys.argv[1]](*sys.argv[2:])
