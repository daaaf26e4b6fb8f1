# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Opens exported files with the tools that they are for, and prints what those read as a line of JSON.

    python export_readers.py FOLDER [SPEEDSCOPE_SCHEMA]     FOLDER has out.perfetto, out.hta, out.openmetrics, out.speedscope and tables/
"""

import collections
import json
import pathlib
import sys

import jsonschema
import pyarrow.dataset
from hta.memory_analysis import MemoryAnalysis
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus


def read_perfetto(path):
    trace = schema.Trace.FromString(path.read_bytes())
    tracks, highest, slices = {}, collections.Counter(), []
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif packet.HasField("track_event"):
            event = packet.track_event
            track = tracks[event.track_uuid]
            if event.type == schema.TrackEvent.TYPE_COUNTER:
                assert track.counter.unit == schema.CounterDescriptor.UNIT_SIZE_BYTES and tracks[track.parent_uuid].process.pid
                highest[track.name] = max(highest[track.name], event.counter_value)
            elif event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                slices.append(event.name)
    return {"highest": highest, "steps": slices}


def read_metrics(path):
    text = path.read_text()
    read = [[(sample.name, sample.labels, sample.value) for family in parse(text) for sample in family.samples] for parse in (openmetrics, prometheus)]
    assert read[0] == read[1]
    return {name: value for name, labels, value in read[0] if "layer" not in labels and "category" not in labels}


def read_timeline(path):
    times, sizes = MemoryAnalysis(str(path))._process_raw_events()
    assert times == sorted(times)
    return {"peak": max(map(sum, sizes)), "end": sum(sizes[-1]), "least": min(map(min, sizes))}


def read_speedscope(path, schema_path):
    profile = json.loads(path.read_text())
    if schema_path is not None:
        jsonschema.validate(profile, json.loads(pathlib.Path(schema_path).read_text()))
    return {"weights": sum(profile["profiles"][0]["weights"]), "validated": schema_path is not None}


def read_tables(folder):
    partitioning = pyarrow.dataset.partitioning(pyarrow.schema([("rank", pyarrow.int32())]), flavor="hive")
    events = pyarrow.dataset.dataset(folder / "events", partitioning=partitioning).to_table().to_pydict()
    return {"events": len(events["allocated"]), "peak": max(value or 0 for value in events["allocated"]), "ranks": sorted(set(events["rank"]))}


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {
        "perfetto": read_perfetto(folder / "out.perfetto"),
        "openmetrics": read_metrics(folder / "out.openmetrics"),
        "hta": read_timeline(folder / "out.hta"),
        "speedscope": read_speedscope(folder / "out.speedscope", sys.argv[2] if len(sys.argv) > 2 else None),
    }
    if (folder / "tables").exists():
        found["parquet"] = read_tables(folder / "tables")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
