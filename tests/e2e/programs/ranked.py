# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Ranks that steer each other: object lists, sizes, sums, groups and messages. Each rank checks what it hears.

    torchrun --nproc-per-node 4 ranked.py [--backend nccl|cpu:gloo,cuda:nccl] [--eager] [--alone]

--alone: one rank that simulates one of many, for which every other holds the same data.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist


def check(found, expected):
    if found != expected:
        sys.exit(f"rank {dist.get_rank()}: {found} instead of {expected}")


def objects(rank, ranks):
    heard = [None] * ranks
    dist.all_gather_object(heard, {"rank": rank, "text": "a" * rank})
    check([each["rank"] for each in heard], list(range(ranks)))
    heard = [{"seed": 7}, rank]
    dist.broadcast_object_list(heard, src=1)
    check(heard, [{"seed": 7}, 1])
    heard = [None]
    dist.scatter_object_list(heard, list("abcdefgh")[:ranks] if rank == 0 else None, src=0)
    check(heard, ["abcdefgh"[rank]])
    heard = [None] * ranks if rank == ranks - 1 else None
    dist.gather_object(rank * 2, heard, dst=ranks - 1)
    check(heard, [2 * i for i in range(ranks)] if rank == ranks - 1 else None)


def sums(rank, ranks):
    for operation, expected in ((dist.ReduceOp.SUM, ranks * (ranks + 1) // 2), (dist.ReduceOp.MAX, ranks), (dist.ReduceOp.MIN, 1)):
        tensor = torch.tensor([rank + 1]).cuda()
        dist.all_reduce(tensor, op=operation)
        check(tensor.item(), expected)


def groups(rank, ranks):
    pairs = [dist.new_group([i, i + 1]) for i in range(0, ranks, 2)]
    heard = [None] * 2
    dist.all_gather_object(heard, rank, group=pairs[rank // 2])
    check(heard, [rank // 2 * 2, rank // 2 * 2 + 1])
    mesh = dist.init_device_mesh("cuda", (ranks // 2, 2), mesh_dim_names=("outer", "inner"))
    heard = [None] * (ranks // 2)
    dist.all_gather_object(heard, rank, group=mesh.get_group("outer"))
    check(heard, list(range(rank % 2, ranks, 2)))


def messages(rank, ranks):
    given, taken = torch.tensor([rank]).cuda(), torch.zeros(1, dtype=torch.long, device="cuda")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, given, (rank + 1) % ranks), dist.P2POp(dist.irecv, taken, (rank - 1) % ranks)]):
        work.wait()
    check(taken.item(), (rank - 1) % ranks)
    heard = [None]
    if rank == 0:
        dist.send_object_list([{"shape": (3, 4)}], dst=1)
    elif rank == 1:
        dist.recv_object_list(heard, src=0)
        check(heard, [{"shape": (3, 4)}])
    counts_to, counts_from = [(rank + i) % 3 for i in range(ranks)], [(i + rank) % 3 for i in range(ranks)]
    given = torch.tensor([rank] * sum(counts_to)).cuda()
    taken = torch.zeros(sum(counts_from), dtype=torch.long, device="cuda")
    dist.all_to_all_single(taken, given, counts_from, counts_to)
    check(taken.tolist(), [i for i in range(ranks) for _ in range(counts_from[i])])


def alone(rank, ranks):
    heard = [None] * ranks
    dist.all_gather_object(heard, {"rank": rank})
    check(heard, [{"rank": rank}] * ranks)
    heard = ["as it is"]
    dist.broadcast_object_list(heard, src=0)
    check(heard, ["as it is"])
    tensor = torch.tensor([2]).cuda()
    dist.all_reduce(tensor)
    check(tensor.item(), 2 * ranks)
    mesh = dist.init_device_mesh("cuda", (ranks // 4, 4), mesh_dim_names=("outer", "inner"))
    check((mesh.get_local_rank("outer"), mesh.get_local_rank("inner")), (rank // 4, rank % 4))
    gloo = dist.new_group(list(range(ranks)), backend="gloo")
    check((dist.get_backend(gloo), dist.get_rank(gloo)), ("gloo", rank))
    dist.all_gather_object(heard := [None] * ranks, rank, group=gloo)
    check(heard, [rank] * ranks)
    data_parallel(gloo)
    dist.monitored_barrier(gloo)
    store = dist.TCPStore("somewhere.invalid", 1, ranks, False)
    store.set(f"ready/{rank}", "yes")
    check(store.multi_get([f"ready/{i}" for i in range(ranks)]), [b"yes"] * ranks)


def data_parallel(group):
    """Its gradients come from the futures of the group."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1, bias=False).cuda(), process_group=group)
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    check(model.module.weight.grad.shape, (1, 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--eager", action="store_true", help="communicators at once, and parts of them for groups")
    parser.add_argument("--alone", action="store_true")
    arguments = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group(arguments.backend, device_id=device if arguments.eager else None)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for part in (alone,) if arguments.alone else (objects, sums, groups, messages):
        part(rank, ranks)
    dist.barrier()
    print(f"rank {rank}: all as expected", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
