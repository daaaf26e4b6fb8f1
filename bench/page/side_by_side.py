#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""One history in two pages: `gpumemshim html`, and the page of PyTorch's memory_viz (`_memory_viz.py trace_plot`). Size of the page, time from opening it to its
picture, JavaScript's heap, and how long frames take while the wheel zooms in and out. Headless Chromium, software drawing.

PyTorch's page loads its viewer from the network. Here the same sources are put into the page, so that neither waits for a network:

    npm install d3@7 esbuild                                     # in any folder
    bench/page/side_by_side.py --viewer FOLDER --modules FOLDER/node_modules [SNAPSHOT.pickle ...]

--viewer: torch/utils/viz of PyTorch's sources (MemoryViz.js, process_alloc_data.js). Without snapshots made-up trainings of 10,000 to 1,000,000 events are
shown (query_bench). Prints tables in Markdown; --pictures FOLDER keeps a picture of each page.
"""

import argparse
import base64
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import chromium  # noqa: E402

RUNS = 5
FRAMES = 180
TIMEOUT_S = 600
# One event of the wheel a frame, in and out by turns of half a second; the time between frames, of both ways.
WHEEL = """(async (element, count) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const {left, top, width, height} = element.getBoundingClientRect();
  const times = [];
  let last = await frame();
  for (let i = 0; i < count; ++i) {
    element.dispatchEvent(new WheelEvent('wheel', {clientX: left + width / 2, clientY: top + height / 2, bubbles: true, cancelable: true,
                                                   deltaY: i % 60 < 30 ? -60 : 60}));
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times;
})"""


class Ours:
    name = "gpumemshim html"
    picture = "document.getElementById('timeline')"
    ready = "document.getElementById('waiting').hidden"

    def make(self, snapshot, page):
        subprocess.run([BIN / "gpumemshim", "html", snapshot, "-o", page], check=True, stdout=subprocess.DEVNULL)


class Theirs:
    name = "memory_viz"
    picture = "document.querySelector('svg')"
    ready = "document.querySelector('svg') !== null"

    def __init__(self, viewer, modules, folder):
        source = pathlib.Path(viewer) / "MemoryViz.js"
        for script in pathlib.Path(viewer).glob("*.js"):
            text = re.sub(r'"https://[^"]*/npm/(d3[a-z-]*)@\d+/\+esm"', r'"\1"', script.read_text())
            (folder / script.name).write_text(text)
        (folder / "entry.js").write_text(f"import {{add_local_files}} from './{source.name}';\nwindow.add_local_files = add_local_files;\n")
        (folder / "node_modules").symlink_to(pathlib.Path(modules).resolve())
        bundle = folder / "bundle.js"
        command = [str(folder / "node_modules" / ".bin" / "esbuild"), "entry.js", "--bundle", "--format=iife", f"--outfile={bundle}", "--log-level=error"]
        subprocess.run(command, cwd=folder, check=True)
        self.bundle = bundle.read_text().replace("</script", "<\\/script")

    def make(self, snapshot, page):
        data = base64.b64encode(pathlib.Path(snapshot).read_bytes()).decode()
        files = json.dumps([{"name": "snapshot.pickle", "base64": data}])
        start = f"add_local_files({files}, 'Active Memory Timeline')"
        page.write_text(f"<!DOCTYPE html><html><head></head><body><script>{self.bundle}</script><script>{start}</script></body>")


class Measured:
    def __init__(self):
        self.load, self.heap, self.frames = [], [], []

    def add(self, tool, path, picture):
        with chromium.Browser(width=1400, height=900) as browser:
            page = browser.open(path)
            deadline = time.monotonic() + TIMEOUT_S
            while not page.evaluate(tool.ready):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{tool.name}: no picture")
            page.settle()
            self.load.append(page.evaluate("performance.now()") / 1000)
            page.call("HeapProfiler.collectGarbage")
            page.call("Performance.enable")
            metrics = {metric["name"]: metric["value"] for metric in page.call("Performance.getMetrics")["metrics"]}
            self.heap.append(metrics["JSHeapUsedSize"] / 1e6)
            if picture is not None:
                page.screenshot(picture)
            self.frames += page.evaluate(f"{WHEEL}({tool.picture}, {FRAMES})")

    def row(self, size):
        frames = sorted(self.frames)
        slow = sum(frame > 25 for frame in frames) / len(frames)
        return (f"{size / 1e6:,.2f} MB | {statistics.median(self.load):.2f} s | {statistics.median(self.heap):,.0f} MB | {statistics.median(frames):.1f} ms"
                f" | {frames[int(len(frames) * 0.95)]:.1f} ms | {frames[-1]:.0f} ms | {slow:.0%}")


def made_up(folder):
    for events in (10_000, 100_000, 1_000_000):
        trace, pickle = folder / f"{events}.gmtrace", folder / f"{events}.pickle"
        subprocess.run([BIN / "query_bench", str(events), "--write", trace], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([BIN / "gpumemshim", "export", "pytorch", trace, "-o", pickle], check=True)
        yield f"made-up training, {events:,} events", pickle


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viewer", required=True)
    parser.add_argument("--modules", required=True)
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("snapshots", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpumemshim-side-") as folder:
        folder = pathlib.Path(folder)
        sources = folder / "viewer"
        sources.mkdir()
        tools = (Ours(), Theirs(arguments.viewer, arguments.modules, sources))
        histories = [(path.name, path) for path in arguments.snapshots] or made_up(folder)
        print("| history | page of | page | opened in | JavaScript's heap | frame, median | of 20, the slowest | slowest of all | over 25 ms |\n|---|---|---|---|---|---|---|---|---|")
        for number, (name, snapshot) in enumerate(histories):
            print(f"| {name}, {snapshot.stat().st_size / 1e6:,.1f} MB | | | | | | | | |")
            for tool in tools:
                page, measured = folder / "page.html", Measured()
                tool.make(snapshot, page)
                for run in range(arguments.runs):
                    picture = arguments.pictures / f"{number}-{tool.name.replace(' ', '-')}.png" if arguments.pictures and run == 0 else None
                    try:
                        measured.add(tool, page, picture)
                    except (TimeoutError, RuntimeError) as error:
                        print(f"| | {tool.name} | {page.stat().st_size / 1e6:,.2f} MB | {str(error)[:100]} | | | | | |", flush=True)
                        break
                else:
                    print(f"| | {tool.name} | {measured.row(page.stat().st_size)} |", flush=True)


if __name__ == "__main__":
    main()
