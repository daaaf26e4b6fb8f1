# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim forecast --watch` beside a program that leaks: it warns in time, and a callback that is slow, crashes or hangs delays nothing and is reported; and
gpumemshim.on_forecast.

    python tests/e2e/forecast_test.py --build build/release
"""

import http.server
import json
import os
import signal
import subprocess
import threading
import time

import live_programs
import truth

SETUP = None
# A line is a step, and each step keeps 3 MiB (live_programs). Signals and forecasts are printed at the end.
BEGIN = """
import signal
SIGNALS = []
signal.signal(signal.SIGUSR1, lambda *_: SIGNALS.append(1))
"""
END = """
print("signals", len(SIGNALS), flush=True)
"""
ASKS = """
import time
import gpumemshim
heard = []
def answers(forecast):
    heard.append((forecast.risk, forecast.device, forecast.first, "remember" in forecast.cause, forecast.likely_s > 0))
def raises(forecast):
    raise ValueError("of the callback")
def hangs(forecast):
    time.sleep(3600)
watches = [gpumemshim.on_forecast(each, interval=0.05, timeout=0.2) for each in (answers, raises, hangs)]
"""
HEARD = """
while not (heard and watches[1].failures and watches[2].failures):
    time.sleep(0.01)
print(heard[0], watches[1].failures[0], watches[2].failures[0], sep="|", flush=True)
"""
STEPS = 110  # of the 126 or so that 1 GiB has room for


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class ForecastTest(live_programs.LiveProgramTest):
    def setUp(self):
        self.setup = SETUP
        super().setUp()
        self.trace = self.folder / "run.gmtrace"
        self.environment["SIMCUDA_MEM_MB"] = "1024"
        self.environment["PYTHONPATH"] = str(truth.ROOT / "python")
        self.environment["GPUMEMSHIM_PROGRAM"] = str(SETUP.gpumem)

    def write(self, before="", after=""):
        (self.folder / "train.py").write_text(before + live_programs.PROGRAM + after)

    def watch(self, *options):
        """`gpumemshim forecast --watch` and a list of what it said so far; ends with the test."""
        command = [SETUP.gpumem, "forecast", "--watch", self.trace, "--json", "--interval", "0.05", *map(str, options)]
        watch = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = []
        reader = threading.Thread(target=lambda: said.extend(json.loads(line) for line in watch.stdout))
        reader.start()
        watch.stopped = reader.join
        self.addCleanup(watch.stderr.close)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(reader.join)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        self.addCleanup(watch.terminate)
        return watch, said

    def wait_until(self, holds):
        until = time.monotonic() + live_programs.WAIT_S
        while not holds():
            self.assertLess(time.monotonic(), until, "it did not come to that")
            time.sleep(0.01)

    def marks(self):
        done = subprocess.run([SETUP.gpumem, "timeline", "--json", self.trace], capture_output=True, text=True, timeout=live_programs.WAIT_S)
        return [mark["text"] for mark in json.loads(done.stdout)["marks"] if "text" in mark and mark["text"]]

    def test_callbacks_that_fail_crash_and_hang(self):
        self.write(BEGIN, END)
        with open(self.folder / "stderr", "wb") as stderr:
            program = self.start(stderr=stderr, GPUMEMSHIM_QUIET="0")
        self.step(program, 12)  # there is a trace by now
        self.wait_until(self.trace.exists)
        hanging = self.folder / "hanging"
        fails = self.watch("--exec", f"cat > {self.folder}/given; env > {self.folder}/variables; exit 3", "--signal", "USR1")
        crashes = self.watch("--exec", "kill -SEGV $$", "--signal", "USR2")
        too_long = self.watch("--exec", "sleep 3600", "--callback-timeout", "0.3")
        hangs = self.watch("--exec", f"echo $$ > {hanging}; exec sleep 3600", "--callback-timeout", "3600")
        self.step(program, STEPS - 12)
        self.wait_until(lambda: hanging.exists() and hanging.read_text().strip())
        self.wait_until(lambda: all(any(each["event"] == "callback" and each["action"] == "exec" for each in said) for _, said in (fails, crashes, too_long)))
        self.step(program, 3)  # it goes on while one hangs
        program.stdin.close()
        self.assertRegex(program.stdout.readline(), "^signals [1-3]$")
        self.assertEqual(program.wait(timeout=live_programs.WAIT_S), 0)
        self.assertRegex((self.folder / "stderr").read_text(), r"\n?gpumemshim: .* 0 lost, \d+ forecast callbacks? failed, in ")
        os.kill(int(hanging.read_text()), 0)  # and has ended while it still hangs
        os.kill(int(hanging.read_text()), signal.SIGKILL)
        left_out = ("exec", True, "not called: the one before still runs")  # a busy machine may be slow to end one
        reports = [self.reports_of(*each) - {left_out} for each in (fails, crashes, too_long, hangs)]
        # At its very end Python gives its handlers back: a warning that is then is not sent.
        reports[0].discard(("signal", True, "SIGUSR1 not sent: the program has no handler for it"))
        self.assertEqual(reports[0], {("exec", True, "exited with code 3"), ("signal", False, "SIGUSR1 sent")})
        self.assertEqual(reports[1], {("exec", True, "crashed: Segmentation fault (signal 11)"), ("signal", True, "SIGUSR2 not sent: the program has no handler for it")})
        self.assertEqual(reports[2], {("exec", True, "ran longer than 300 ms, killed")})
        self.assertEqual(reports[3], {("exec", True, "crashed: Killed (signal 9)")})
        self.check_warning(fails[1])
        self.check_trace()

    def reports_of(self, watch, said):
        self.assertEqual(watch.wait(timeout=live_programs.WAIT_S), 0)
        watch.stopped()
        self.assertEqual(said[-1]["event"], "end")
        self.assertEqual(said[-1]["callbacks"], sum(each["event"] == "callback" for each in said))
        return {(each["action"], each["failed"], each["text"]) for each in said if each["event"] == "callback"}

    def check_warning(self, said):
        warning = next(each for each in said if each["event"] == "warning")
        self.assertEqual((warning["first"], warning["device"], warning["kind"], warning["file"]), (True, 0, "reaches", str(self.trace)))
        self.assertIn("train.py:", warning["sentence"])
        self.assertIn("remember keeps 3 MiB more each step", warning["cause"])
        self.assertAlmostEqual(warning["bytes_per_step"], 3 << 20, delta=1 << 18)
        given = json.loads((self.folder / "given").read_text())
        self.assertIn(given, said)
        variables = (self.folder / "variables").read_text()
        self.assertIn(f"GPUMEMSHIM_RISK={given['risk']}\n", variables)
        self.assertIn(f"GPUMEMSHIM_SENTENCE={given['sentence']}\n", variables)
        page = (truth.ROOT / "docs" / "json.md").read_text()
        self.assertEqual({key for each in said for key in each if f"`{key}`" not in page}, set())

    def check_trace(self):
        """What happened is in the trace: the moment of the first warning as a snapshot, and what failed."""
        marks = self.marks()
        self.assertIn("forecast callback failed (exec: exited with code 3)", marks)
        self.assertIn("forecast callback failed (exec: ran longer than 300 ms, killed)", marks)
        self.assertIn("forecast callback failed (signal: SIGUSR2 not sent: the program has no handler for it)", marks)
        report = subprocess.run([SETUP.gpumem, "report", self.trace], capture_output=True, text=True, timeout=live_programs.WAIT_S).stdout
        self.assertRegex(report, r"Forecast +warned \d+ times, first at .*\((medium|high|critical), GPU 0, step")
        self.assertRegex(report, r"Forecast +\d+ callbacks failed, first \(")
        moment = subprocess.run([SETUP.gpumem, "at", "forecast warning", self.trace], capture_output=True, text=True, timeout=live_programs.WAIT_S)
        self.assertEqual(moment.returncode, 0, moment.stderr)
        self.assertIn("remember", moment.stdout)

    def test_the_recorder_starts_it(self):
        """GPUMEMSHIM_FORECAST_EXEC: one call hangs; the program ends, and the process beside it once the hanging call is over."""
        self.write(BEGIN, END)
        hanging = self.folder / "hanging"
        program = self.start(GPUMEMSHIM_FORECAST_EXEC=f"echo $$ $PPID > {hanging}.new; mv {hanging}.new {hanging}; exec sleep 3600", GPUMEMSHIM_FORECAST_SIGNAL="USR1")
        self.step(program, STEPS)
        self.wait_until(hanging.exists)
        self.step(program, 2)
        program.stdin.close()
        self.assertRegex(program.stdout.readline(), "^signals [1-3]$")
        self.assertEqual(program.wait(timeout=live_programs.WAIT_S), 0)
        callback, watch = map(int, hanging.read_text().split())
        os.kill(callback, 0)
        os.kill(callback, signal.SIGKILL)
        self.wait_until(lambda: not is_alive(callback) and not is_alive(watch))
        settings = json.loads(subprocess.run([SETUP.gpumem, "export", "packets", "--json", self.trace], capture_output=True, text=True, timeout=live_programs.WAIT_S).stdout.splitlines()[0])["data"]["settings"]
        self.assertIn("GPUMEMSHIM_FORECAST_SIGNAL", settings)
        self.assertNotIn("GPUMEMSHIM_FORECAST_EXEC", settings)
        self.assertIn("forecast warning", self.marks())

    def test_attach_hands_the_callbacks_on(self):
        """The program's own environment has no word of them."""
        self.write()
        program = subprocess.Popen(SETUP.command(self.folder / "train.py"), env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for cleanup in (program.stdout.close, program.wait, program.kill, program.stdin.close):
            self.addCleanup(cleanup)
        self.assertEqual(program.stdout.readline(), "ready\n")
        settings = {"GPUMEMSHIM_FORECAST_EXEC": f"env > {self.folder}/called.new; mv {self.folder}/called.new {self.folder}/called"}
        attached = subprocess.run(
            [SETUP.gpumem, "attach", "-o", self.trace, str(program.pid)], env={**self.environment, **settings}, capture_output=True, text=True, timeout=live_programs.WAIT_S
        )
        self.assertEqual(attached.returncode, 0, attached.stderr)
        self.step(program, STEPS)
        self.wait_until((self.folder / "called").exists)
        self.finish(program)
        self.assertIn(f"GPUMEMSHIM_PID={program.pid}\n", (self.folder / "called").read_text())

    def test_a_webhook_goes_only_where_it_may(self):
        refused = subprocess.run([SETUP.gpumem, "forecast", "--watch", "--webhook", "https://hooks.example.org/x"], capture_output=True, text=True, timeout=live_programs.WAIT_S)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--allow-host hooks.example.org", refused.stderr)
        posted = []

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                posted.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200 if len(posted) == 1 else 500)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.write()
        program = self.start()
        self.step(program, 12)
        self.wait_until(self.trace.exists)
        watch, said = self.watch("--webhook", f"http://127.0.0.1:{server.server_port}/a?b=c")
        self.step(program, STEPS - 12)
        self.wait_until(lambda: any(each["event"] == "callback" for each in said))
        self.finish(program)
        reports = self.reports_of(watch, said)
        self.assertIn(("webhook", False, "exited with code 0"), reports)
        self.assertEqual(posted[0][0], "/a?b=c")
        self.assertIn(json.loads(posted[0][1]), said)

    def test_python_is_called(self):
        self.write(ASKS, HEARD)
        program = self.start()
        self.step(program, STEPS)
        program.stdin.close()
        heard, raised, hung = program.stdout.readline().rstrip("\n").split("|")
        self.assertIn(heard, [f"('{risk}', 0, True, True, True)" for risk in ("medium", "high", "critical")])
        self.assertEqual((raised, hung), ("ValueError: of the callback", "still runs after 0.2 s"))
        self.assertEqual(program.wait(timeout=live_programs.WAIT_S), 0)  # though one never returns
        marks = self.marks()
        self.assertIn("forecast callback failed (python raises: ValueError: of the callback)", marks)
        self.assertIn("forecast callback failed (python hangs: still runs after 0.2 s)", marks)


if __name__ == "__main__":
    truth.run_tests(globals())
