# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The part of `gpumemshim plan` that runs in a planned program of several ranks, laid in front of PYTHONPATH as sitecustomize.py: so it runs before the program
does, and changes torch.distributed while that is imported.

Where all ranks are here, lists of objects are put together on the host: kernels, which would do that, compute nothing.

With --world-size (GPUMEMSHIM_PLAN_FAKE_RANKS) one process simulates a rank of many that are not there:

    stores         nobody is waited for; what an absent rank would have written is what this one wrote under its own name
    gloo           PyTorch's "fake" backend: gathers give what this rank gave. Its futures hold the tensors, as DistributedDataParallel wants them
    object lists   that come from an absent rank stay as they are
    NCCL           PyTorch's own process group, on the simulated library, for which every rank holds the same data (SIMCUDA_NCCL_ALONE)

The user's own sitecustomize runs as ever. Of what it looks for in PyTorch (2.4 to 2.14) a part that is missing is left as it is.
"""

import functools
import importlib.machinery
import importlib.util
import os
import pickle
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE_RANKS = "GPUMEMSHIM_PLAN_FAKE_RANKS" in os.environ
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
UNIQUE_ID_BYTES = 128  # of ncclUniqueId
reported = set()


def say(text):
    if text not in reported:
        reported.add(text)
        print(f"gpumemshim plan: {text}", file=sys.stderr)


# Stores.


def as_bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def shape_of(key):
    """Names that differ in numbers alone, such as a rank's, have the same."""
    return re.sub(r"\d+", "#", key)


class Alone:
    """What a store does that is alone in its world. All of them share their contents, as clients of one server do. PyTorch's C++ calls it as well."""

    values, by_shape = {}, {}
    kept = []  # C++ holds stores without Python's knowledge

    def __init__(self, host_name="localhost", port=0, *arguments, **options):
        super().__init__()
        self.host, self.port = host_name, port
        self.kept.append(self)

    def set(self, key, value):
        self.values[key] = self.by_shape[shape_of(key)] = as_bytes(value)

    def get(self, key):
        found = self.values.get(key)
        if found is None:
            # What an absent rank 0 hands out under such a name is the id of a communicator, of which nothing is needed.
            found = bytes(UNIQUE_ID_BYTES) if "/cuda/" in key else self.by_shape.get(shape_of(key), b"")
        return found

    def add(self, key, amount):
        """All ranks add the same."""
        self.set(key, str(int(self.values.get(key, b"0")) + amount * WORLD))
        return int(self.values[key])

    def compare_set(self, key, expected, desired):
        if self.values.get(key, b"") == as_bytes(expected):
            self.set(key, desired)
        return self.values.get(key, b"")

    def append(self, key, value):
        self.set(key, self.values.get(key, b"") + as_bytes(value))

    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def check(self, keys):
        return all(key in self.values for key in keys)

    def wait(self, keys, timeout=None):
        pass

    def num_keys(self):
        return len(self.values)

    def delete_key(self, key):
        return self.values.pop(key, None) is not None

    def has_extended_api(self):
        return True

    def set_timeout(self, timeout):
        pass

    def clone(self):
        return self


@functools.cache
def store_class():
    return type("Store", (Alone, sys.modules["torch._C._distributed_c10d"].Store), {})


def replace_stores(module):
    for name in ("TCPStore", "FileStore"):
        if hasattr(module, name):
            setattr(module, name, store_class())


# Process groups.


def without_gloo(c10d, backend):
    """The same backends with the one that does nothing instead of gloo, which would connect to the other ranks."""
    Backend = c10d.Backend
    text = str(backend).lower()
    if text == Backend.UNDEFINED:
        usual = {"cpu": Backend.GLOO, "cuda": Backend.NCCL}
        text = ",".join(f"{device}:{name}" for device, name in getattr(Backend, "default_device_backend_map", usual).items() if device in usual)
    if Backend.GLOO not in text:
        return backend
    from torch.testing._internal.distributed import fake_pg  # noqa: F401: it registers the backend

    if text == Backend.GLOO and register_alone(c10d):
        return Backend(ALONE)
    return Backend(text.replace(Backend.GLOO, "fake"))


ALONE = "gpumem_alone"
COLLECTIVES = """allreduce allreduce_coalesced broadcast barrier reduce allgather _allgather_base allgather_coalesced allgather_into_tensor_coalesced gather scatter
    reduce_scatter _reduce_scatter_base reduce_scatter_tensor_coalesced alltoall alltoall_base send recv recv_anysource monitored_barrier""".split()


def register_alone(c10d):
    """The fake backend, whose futures hold nothing, as a group whose futures hold the tensors: DistributedDataParallel and its hooks read them."""
    if ALONE in c10d.Backend.backend_list:
        return True
    native, plugin = sys.modules["torch._C._distributed_c10d"], getattr(c10d.Backend, "_plugins", {}).get("FAKE")
    if plugin is None or not plugin.extended_api or not hasattr(native, "_create_work_from_future"):
        return False

    class AloneGroup(native.ProcessGroup):
        def __init__(self, rank, size, fake):
            super().__init__(rank, size)
            self.fake = fake
            for device in ("cpu", "cuda"):  # where c10d asks for what is behind the group
                self._register_backend(sys.modules["torch"].device(device), native.ProcessGroup.BackendType.CUSTOM, fake)

        def getBackendName(self):  # a group of another name would be looked into for its backend
            return ALONE

    def collective(name):
        def run(self, *arguments, **options):
            getattr(self.fake, name)(*arguments, **options)
            future = sys.modules["torch.futures"].Future()
            future.set_result(arguments[0] if arguments and isinstance(arguments[0], list) else [])
            return native._create_work_from_future(future)

        return run

    for name in COLLECTIVES:
        if hasattr(native.Backend, name):
            setattr(AloneGroup, name, collective(name))
    c10d.Backend.register_backend(ALONE, lambda options, more: AloneGroup(options.group_rank, options.group_size, plugin.creator_fn(options, more)), extended_api=True,
                                  devices=["cpu", "cuda"])
    return True


def replace_groups(c10d):
    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def helper(size, rank, ranks, backend, *arguments, **options):
        made = make(size, rank, ranks, without_gloo(c10d, backend), *arguments, **options)
        world, group = c10d._world, made[0]
        if group in world.pg_map:  # what the program asks for the backend's name
            world.pg_map[group] = (backend, world.pg_map[group][1])
            if hasattr(world, "pg_backend_config"):
                world.pg_backend_config[group] = str(c10d.BackendConfig(c10d.Backend(backend)))
        return made

    c10d._new_process_group_helper = helper
    c10d._get_split_source = lambda group: None  # a communicator's part would not know its size

    def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
        parent = c10d.get_process_group_ranks(parent_pg or c10d._get_default_group())
        for ranks in split_ranks:
            everywhere = [parent[rank] for rank in sorted(ranks)]
            if c10d.get_rank() in everywhere:
                return c10d.new_group(everywhere, timeout=timeout, group_desc=group_desc, use_local_synchronization=True)
        return None

    if hasattr(c10d, "split_group"):
        c10d.split_group = split_group
    c10d.monitored_barrier = lambda *arguments, **options: None


# Objects.


def replace_objects(c10d):
    def from_this(group, source, group_source):
        if group_source is not None:
            return c10d.get_rank(group) == group_source
        return source is None or c10d.get_rank() == source

    def keep_lists(name, position):
        real = getattr(c10d, name)

        @functools.wraps(real)
        def function(*arguments, **options):
            source = arguments[position] if len(arguments) > position else options.get("src", 0)
            group = arguments[position + 1] if len(arguments) > position + 1 else options.get("group")
            if from_this(group, source, options.get("group_src")):
                return real(*arguments, **options)
            say(f"torch.distributed.{name} from a rank that is not there: its objects stay as they are here")
            return source

        setattr(c10d, name, function)

    keep_lists("broadcast_object_list", 1)
    keep_lists("scatter_object_list", 2)
    if hasattr(c10d, "recv_object_list"):
        def recv_object_list(object_list, src=None, *arguments, **options):
            say("torch.distributed.recv_object_list from a rank that is not there: its objects stay as they are here")
            return src

        c10d.recv_object_list = recv_object_list


def carry_objects(c10d):
    """Lists of objects of ranks that are here: pickled as a whole, and sent as two tensors that come from the host."""
    torch = sys.modules["torch"]
    usual_device = getattr(c10d, "_get_object_coll_device", None) or getattr(c10d, "_get_pg_default_device", None)  # the name until 2.5
    if usual_device is None:
        return

    def device_of(group, device):
        return device or usual_device(group or c10d._get_default_group())

    def outgoing(objects, device):
        data = torch.frombuffer(bytearray(pickle.dumps(list(objects))), dtype=torch.uint8)
        return torch.tensor([data.numel()]).to(device), data.to(device)

    def receive(objects, device, move):
        size = torch.zeros(1, dtype=torch.long, device=device)
        move(size)
        data = torch.zeros(int(size.item()), dtype=torch.uint8, device=device)
        move(data)
        objects[:] = pickle.loads(data.cpu().numpy().tobytes()) if data.numel() else objects

    def peer(options):
        return {name: value for name, value in options.items() if value is not None}

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        if c10d._rank_not_in_group(group):
            return
        where = peer({"group_src": group_src, "src": src if group_src is not None or src is not None else 0})
        if c10d.get_rank(group) == group_src or (group_src is None and c10d.get_rank() == where["src"]):
            for tensor in outgoing(object_list, device_of(group, device)):
                c10d.broadcast(tensor, group=group, **where)
        else:
            receive(object_list, device_of(group, device), lambda tensor: c10d.broadcast(tensor, group=group, **where))

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
        for tensor in outgoing(object_list, device_of(group, device)):
            c10d.send(tensor, group=group, **peer({"dst": dst, "group_dst": group_dst}))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
        senders = []
        where = peer({"src": src, "group_src": group_src})
        receive(object_list, device_of(group, device), lambda tensor: senders.append(c10d.recv(tensor, group=group, **where)))
        return senders[0]

    for function in (broadcast_object_list, send_object_list, recv_object_list):
        if hasattr(c10d, function.__name__):
            setattr(c10d, function.__name__, functools.wraps(getattr(c10d, function.__name__))(function))


def change(module):
    is_c10d = module.__name__.endswith("c10d")
    if FAKE_RANKS:
        replace_stores(module)
    if FAKE_RANKS and is_c10d:
        replace_groups(module)
        replace_objects(module)
    elif is_c10d:
        carry_objects(module)


def launchers():
    """launchers.py, which lies above this folder."""
    spec = importlib.util.spec_from_file_location("gpumem_launchers", os.path.join(os.path.dirname(HERE), "launchers.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Finder:
    """Changes the modules below right after they were loaded, before those that import them see them."""

    NAMES = ("torch.distributed.distributed_c10d", "torch.distributed.rendezvous", "torch.distributed")
    LAUNCHERS = ("torch.distributed.launcher.api", "deepspeed.launcher.runner")

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_launcher = FAKE_RANKS and name in cls.LAUNCHERS
        if name not in cls.NAMES and not is_launcher:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            if is_launcher:
                launchers().change(module, say)
            elif "torch._C._distributed_c10d" in sys.modules:  # a PyTorch without it has nothing to change
                change(module)

        spec.loader.exec_module = exec_module
        return spec


def begin():
    if FAKE_RANKS:
        # Threads of PyTorch that ask the store whether another rank has failed.
        os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
        os.environ.pop("TORCH_DISTRIBUTED_DEBUG", None)
    sys.meta_path.insert(0, Finder)


def chain():
    """The user's own sitecustomize, which this one hides."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    begin()
    chain()
