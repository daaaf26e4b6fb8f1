# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a memory snapshot of PyTorch says, by the shortest way: a loop over the unpickled entries, backwards from the final segments. It shares
nothing with the importer, so that the two can be compared. Nothing that a pickle names is imported.
"""

import collections
import pickle


class PlainValues(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refused {module}.{name}")


def load(path):
    with open(path, "rb") as file:
        return PlainValues(file).load()


TAKES = ("segment_alloc", "segment_map")
GIVES = ("segment_free", "segment_unmap")


def facts_of(snapshot, device):
    """Peaks and ends of a device in bytes, and how often each action happened. Sizes of blocks are those that were asked for."""
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
    blocks = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
    reserved = peak_reserved = sum(segment["total_size"] for segment in segments)
    requested = peak_requested = sum(block["requested_size"] for block in blocks)
    facts = {"end_reserved": reserved, "end_requested": requested, "end_allocated": sum(block["size"] for block in blocks), "blocks": len(blocks)}
    actions = collections.Counter()
    for entry in reversed(snapshot["device_traces"][device]):
        actions[entry["action"]] += 1
        reserved += entry["size"] * ((entry["action"] in GIVES) - (entry["action"] in TAKES))
        requested += entry["size"] * ((entry["action"] == "free_requested") - (entry["action"] == "alloc"))
        peak_reserved, peak_requested = max(peak_reserved, reserved), max(peak_requested, requested)
    return {**facts, "peak_reserved": peak_reserved, "peak_requested": peak_requested, "actions": actions}


def requests_of(snapshot, device):
    """(action, size, stream) of blocks, in order."""
    kept = ("alloc", "free_requested", "oom")
    return [(entry["action"], entry["size"], entry["stream"]) for entry in snapshot["device_traces"][device] if entry["action"] in kept]
