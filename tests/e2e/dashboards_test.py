# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The dashboard for Grafana and the alerts for Prometheus beside a running `gpumemshim serve`: what they ask for is served, with the labels that they use, and
nothing that is served is shown nowhere. promtool reads every query and rule.

    python tests/e2e/dashboards_test.py --build build/release [--full]

--full: a real Prometheus, configured as docs/commands/serve.md says, scrapes `serve`, and every query of every panel has an answer; the dashboard has the types
of Grafana's own schema (npm's @grafana/schema, by TypeScript).
"""

import json
import pathlib
import re
import socket
import subprocess
import sys
import time
import unittest
import urllib.parse
import urllib.request

import live_programs
import serve_test
import truth

sys.path.insert(0, str(truth.ROOT / "scripts" / "lib"))
import debian_tools  # noqa: E402

SETUP = None
WAIT_S = live_programs.WAIT_S
PACKAGING = truth.ROOT / "packaging"
DASHBOARD = PACKAGING / "grafana" / "gpumemshim.json"
ALERTS = PACKAGING / "prometheus" / "alerts.yaml"
METRIC = re.compile(r"\bgpumemshim_\w+")
SAMPLE = re.compile(r"(gpumemshim_\w+)\{(.*)\} \S+")
LABEL_MATCH = re.compile(r"(\w+)=~")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
BY_PROMETHEUS = {"job", "instance"}  # labels that the server puts on, not `serve`
TYPES = """import type {{ Dashboard }} from '@grafana/schema';
// JSON has the values of enumerations, not their names.
type Plain<T> = T extends string ? `${{T}}` : T extends number ? number : T extends boolean ? boolean : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
export const dashboard: Plain<Dashboard> = {};
"""


def queries(dashboard):
    """(panel's title, query, legend) of each target."""
    return [(panel["title"], target["expr"], target["legendFormat"]) for panel in dashboard["panels"] for target in panel["targets"]]


def of_metrics(text):
    """Name -> the labels that its samples have."""
    served = {}
    for name, labels in SAMPLE.findall(text):
        served.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return served


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def tool(name):
    path = debian_tools.tool("prometheus", name)
    if path is None:
        raise unittest.SkipTest(f"no {name}. Run scripts/bootstrap --all")
    return path


class DashboardsTest(live_programs.LiveProgramTest):
    def setUp(self):
        self.setup = serve_test.SETUP = SETUP
        super().setUp()
        self.dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))

    def serve(self, *arguments):
        """`gpumemshim serve` beside a program that runs, has trained, and has grown."""
        self.program = self.start()
        self.step(self.program, 3)
        server = serve_test.Server(self.folder, "run.gmtrace", *arguments, environment=self.environment)
        self.addCleanup(self.finish, self.program)
        self.addCleanup(lambda: server.process.poll() is None and server.end())
        return server

    def promtool(self, *arguments):
        done = subprocess.run([tool("promtool"), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_they_ask_for_is_served_and_what_is_served_is_shown(self):
        server = self.serve()
        until = time.monotonic() + 60
        shown = {metric for _, query, _ in queries(self.dashboard) for metric in METRIC.findall(query)}
        served = {}
        while set(served) != shown and time.monotonic() < until and not (set(served) - shown):  # the sampler's first numbers come later
            served = of_metrics(server.get("/metrics").decode())
            time.sleep(0.05)
        self.assertEqual(shown, set(served))
        for title, query, legend in queries(self.dashboard):
            of_all = set.union(*(served[metric] for metric in METRIC.findall(query)))
            self.assertLessEqual(set(LABEL_MATCH.findall(query)) - BY_PROMETHEUS, of_all, title)
            self.assertLessEqual(set(LEGEND.findall(legend)) - {"rank"}, of_all, title)  # only a rank has `rank`
        for variable in self.dashboard["templating"]["list"][1:]:
            self.assertLessEqual(set(METRIC.findall(variable["query"]["query"])), set(served))
        for rule in ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]:
            named = METRIC.findall(rule)
            self.assertLessEqual(set(named), set(served), rule)
            labels = set(re.findall(r"\$labels\.(\w+)", rule)) | {each for found in re.findall(r"ignoring\((.*?)\)", rule) for each in found.split(", ")}
            self.assertLessEqual(labels, served[named[0]], rule)

    def test_each_panel_has_its_place_and_says_what_it_shows(self):
        taken = set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
            self.assertTrue(panel["description"].endswith("."), panel["title"])
            self.assertEqual({each["datasource"]["uid"] for each in (panel, *panel["targets"])}, {"${datasource}"})
        self.assertEqual(len({panel["id"] for panel in self.dashboard["panels"]}), len(self.dashboard["panels"]))

    def test_promtool_reads_every_query_and_the_alerts_come_when_they_should(self):
        self.promtool("check", "rules", ALERTS)
        self.promtool("test", "rules", ALERTS.with_name("alerts_test.yaml"))
        tried = set(re.findall(r"alertname: (\w+)", ALERTS.with_name("alerts_test.yaml").read_text(encoding="utf-8")))
        self.assertEqual(set(re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))), tried)
        rules = [{"record": f"query_{number}", "expr": query} for number, (_, query, _) in enumerate(queries(self.dashboard))]
        (self.folder / "queries.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
        self.promtool("check", "rules", "--lint=none", "queries.yaml")

    # --- --full ---------------------------------------------------------------------------------------------------------------------------

    def start_prometheus(self, port):
        """As the manual says, but for the names of this test; scrapes each second."""
        manual = (truth.ROOT / "docs" / "commands" / "serve.md").read_text(encoding="utf-8")
        (config,) = (block for block in re.findall(r"```yaml\n(.*?)```", manual, re.S) if "scrape_configs" in block)
        here = config.replace("/home/me/", f"{self.folder}/").replace("9464", str(port)).replace("alerts.yaml", str(ALERTS))
        self.assertNotEqual(here, config)
        (self.folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n{here}")
        self.promtool("check", "config", "prometheus.yml")
        asked = free_port()
        command = [tool("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{asked}", "--log.level=error"]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return f"http://127.0.0.1:{asked}/api/v1"

    def ask(self, address, path, **words):
        try:
            with urllib.request.urlopen(f"{address}/{path}?{urllib.parse.urlencode(words)}", timeout=WAIT_S) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {}

    def answers(self, address):
        """Panel's query -> how many series answer it now."""
        found = {}
        for _, query, _ in queries(self.dashboard):
            plain = re.sub(r"\$\w+", ".*", query)
            found[plain] = len(self.ask(address, "query", query=plain).get("result", ()))
        return found

    def test_prometheus_scrapes_it_and_every_panel_has_an_answer(self):
        tool("prometheus")
        port = free_port()
        self.serve("--port", port, "--token-file", "gpumemshim.token")
        address = self.start_prometheus(port)
        until = time.monotonic() + 60
        while not all(found := self.answers(address).values()) and time.monotonic() < until:
            time.sleep(0.5)
        self.assertTrue(all(found), self.answers(address))
        up = self.ask(address, "query", query='up{job="gpumemshim"}')["result"]
        self.assertEqual([row["value"][1] for row in up], ["1"])
        rules = self.ask(address, "rules")["groups"][0]["rules"]
        self.assertEqual({rule["health"] for rule in rules}, {"ok"}, rules)

    def test_it_has_the_types_of_grafanas_schema(self):
        names = [line.replace(" ", "@", 1) for line in (truth.ROOT / "scripts" / "requirements" / "npm_tests.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        got = subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--no-save", "--legacy-peer-deps", "--prefix", ".", *names], cwd=self.folder, capture_output=True, text=True, check=False)
        if got.returncode:
            self.skipTest(f"npm has not {names}: {got.stderr[-300:]}")
        compiler = ["node", "node_modules/typescript/bin/tsc", "--strict", "--noEmit", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler", "dashboard.ts"]
        broken = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        broken["panels"][0]["fieldConfig"]["defaults"]["thresholds"]["mode"] = "relative"
        for told, expected in ((self.dashboard, 0), (broken, 2)):
            (self.folder / "dashboard.ts").write_text(TYPES.format(json.dumps(told, indent=1)))
            done = subprocess.run(compiler, cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, expected, done.stdout)


if __name__ == "__main__":
    truth.run_tests(globals(), rarer=("test_prometheus_scrapes_it_and_every_panel_has_an_answer", "test_it_has_the_types_of_grafanas_schema"))
