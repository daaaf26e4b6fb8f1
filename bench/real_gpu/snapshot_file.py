# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Reads a PyTorch memory snapshot (`torch.cuda.memory._dump_snapshot`) as plain data: a pickle that names any class or function is refused.

    snapshot = load("memory_snapshot.pickle")           # {"segments": [...], "device_traces": [[...], ...], ...}
    entries(snapshot, 0)                                # that device's history, oldest first, without the entry of the dump itself

Raises pickle.UnpicklingError for what is refused or damaged, ValueError for a pickle that holds something else.
"""

import pickle


class PlainData(pickle.Unpickler):
    """Dictionaries, lists, tuples, numbers and strings; nothing that is looked up, imported or called."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"the file names {module}.{name}, which plain data never does: it was not opened")


def load(path):
    with open(path, "rb") as file:
        snapshot = PlainData(file).load()
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("segments"), list):
        raise ValueError(f"{path} is not a memory snapshot of PyTorch: it has no list of segments")
    snapshot.setdefault("device_traces", [])
    return snapshot


def devices(snapshot):
    """Devices with a history or with segments."""
    found = {index for index, trace in enumerate(snapshot["device_traces"]) if any(entry["action"] != "snapshot" for entry in trace)}
    return sorted(found | {segment.get("device", 0) for segment in snapshot["segments"]})


def entries(snapshot, device):
    traces = snapshot["device_traces"]
    return [entry for entry in traces[device] if entry["action"] != "snapshot"] if device < len(traces) else []


def segments(snapshot, device):
    return [segment for segment in snapshot["segments"] if segment.get("device", 0) == device]
