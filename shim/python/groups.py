# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The process groups that the program made, with their descriptions: a part of the helper.

A DeviceMesh's groups are described as mesh_tp, mesh_pp, ..., by the names of its dimensions; those of new_group as group_desc says. What roles follow
from that is the analyzer's to say. The group of a DistributedDataParallel, or of a FullyShardedDataParallel that shards over all of it, is said to be used by it. torch.distributed is not imported for that, and of the objects in its tables only what PyTorch's own C code answers is
asked for.
"""

PROCESS_GROUP = 15  # field of trace.proto's Definitions
MOST_GROUPS = 4096
FSDP = "FullyShardedDataParallel"
WRAPPERS_OF_GROUPS = {"torch.nn.parallel.distributed": "DistributedDataParallel", "torch.distributed.fsdp.fully_sharded_data_parallel": FSDP}
WHOLE_GROUP = ("FULL_SHARD", "SHARD_GRAD_OP")


def is_number(value):
    return type(value) is int and 0 <= value < 1 << 31


class ProcessGroups:
    def __init__(self):
        self.told = {}  # names
        self.count = 0  # of the table, when it was looked at last

    def renew(self):
        self.told.clear()
        self.count = 0

    def look(self):
        module = module_fields("torch.distributed.distributed_c10d")
        groups, kind = dict.get(module, "_pg_names"), dict.get(module, "ProcessGroup")
        if type(groups) is not dict or dict.__len__(groups) == self.count or not is_a(kind, type):
            return
        self.count = dict.__len__(groups)
        for group, name in pairs(groups):
            name = text(name)
            # Of a class of the program it is not known whether its part in C++ was ever made.
            if name and name not in self.told and type(group) is kind and self.told.__len__() < MOST_GROUPS:
                self.told[name] = self.told.__len__() + 1
                self.tell(group, name, class_fields(kind))

    def tell(self, group, name, members):
        described, rank_of, size_of = members.get("group_desc"), members.get("rank"), members.get("size")
        getter = described.fget if class_name(type(described)) == "property" else None
        values = [self.ask(question, group) for question in (getter, rank_of, size_of)]
        if text(values[0]) and is_number(values[1]) and is_number(values[2]):
            reported = [(1, self.told[name]), (2, name), (3, text(values[0])), (4, values[1]), (5, values[2])]
            record.define(PROCESS_GROUP, message(reported))

    def used(self, module, kind):
        """A model that is walked: a wrapper's group divides its batches."""
        wrapper, name = dict.get(WRAPPERS_OF_GROUPS, module_name(kind)), class_name(kind)
        if wrapper != name or wrapper == FSDP and text(field(module, "sharding_strategy", "_name_")) not in WHOLE_GROUP:
            return
        self.look()
        held = field(module, "process_group")
        for group, known in pairs(dict.get(module_fields("torch.distributed.distributed_c10d"), "_pg_names")):
            if group is held and text(known) in self.told:
                record.define(PROCESS_GROUP, message([(1, self.told[text(known)]), (6, wrapper)]))

    def ask(self, question, group):
        """None where it is not a function in C, or it does not know."""
        if question is None or record.code(question) is not None:
            return None
        try:
            return question(group)
        except Exception as error:
            if not is_own(error):
                raise
            return None
