# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim serve` beside a program that trains: who gets an answer and who does not, its numbers against `gpumemshim live` and `gpumemshim html`, readers that
hang up, and the page in a headless Chromium while the program goes on, ends, and while the server ends.

    python tests/e2e/serve_test.py --build build/release
"""

import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest
import zlib

import chromium
import live_programs
import truth

SETUP = None
WAIT_S = live_programs.WAIT_S


class Server:
    """A running `gpumemshim serve`."""

    def __init__(self, folder, *arguments, environment=None):
        command = [SETUP.gpumem, "serve", "--json", "--interval", "0.1", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        if not said:
            raise AssertionError(self.process.stderr.read())
        self.said = json.loads(said)
        self.port, self.token, self.address = self.said["port"], self.said["token"], self.said["address"]

    def request(self, path, method="GET", token=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request(method, f"{path}?token={self.token if token is None else token}", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def get(self, path):
        answer, body = self.request(path)
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {body[:500]}")
        return zlib.decompress(body) if answer.headers["Content-Encoding"] == "deflate" else body

    def stream(self):
        """A socket that reads server-sent events."""
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        stream.sendall(f"GET /events?token={self.token} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return stream

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=WAIT_S)
        self.process.stdout.close()
        errors = self.process.stderr.read()
        self.process.stderr.close()
        return code, errors


class ServeTest(live_programs.LiveProgramTest):
    def setUp(self):
        self.setup = SETUP
        super().setUp()

    def serve(self, *arguments):
        server = Server(self.folder, *arguments, environment=self.environment)
        self.addCleanup(lambda: server.process.poll() is None and server.end())
        return server

    def ended(self, steps=3):
        program = self.start()
        self.step(program, steps)
        self.finish(program)
        return self.folder / "run.gmtrace"

    def wait(self, what, told=""):
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            found = what()
            if found:
                return found
            time.sleep(0.05)
        return self.fail(f"it did not come: {told}")

    def test_answers_only_who_has_the_token_by_a_name_of_this_machine(self):
        server = self.serve(self.ended())
        self.assertRegex(server.address, rf"^http://127\.0\.0\.1:{server.port}/\?token={server.token}$")
        for path in ("/", "/data", "/live", "/metrics"):
            self.assertEqual(server.request(path)[0].status, 200, path)
            self.assertEqual(server.request(path, token="")[0].status, 403, path)
            self.assertEqual(server.request(path, token=server.token[:-1] + "x")[0].status, 403, path)
            self.assertEqual(server.request(path, Host="attacker.example")[0].status, 421, path)
            self.assertEqual(server.request(path, Host=f"localhost:{server.port}")[0].status, 200, path)
            self.assertEqual(server.request(path, method="HEAD")[1], b"", path)
        self.assertEqual(server.request("/live", token="", Authorization=f"Bearer {server.token}")[0].status, 200)
        self.assertEqual(server.request("/etc/passwd")[0].status, 404)
        self.assertEqual(server.request("/../../etc/passwd")[0].status, 404)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertGreaterEqual(server.request("/", method=method)[0].status, 400, method)
        headers = server.request("/")[0].headers
        self.assertEqual((headers["Cache-Control"], headers["X-Frame-Options"], headers["Referrer-Policy"]), ("no-store", "DENY", "no-referrer"))
        # Loopback alone: not by another address of this machine.
        with open("/proc/net/tcp", encoding="ascii") as table:
            bound = [row.split()[1] for row in table if row.split()[1].endswith(f":{server.port:04X}") and row.split()[3] == "0A"]
        self.assertEqual(bound, [f"0100007F:{server.port:04X}"])
        self.assertEqual(server.end(), (0, ""))

    def test_a_taken_port_and_a_bad_token_file_are_said(self):
        trace = self.ended()
        server = self.serve(trace, "--token-file", "token")
        self.assertEqual((self.folder / "token").read_text().strip(), server.token)
        (self.folder / "bad").write_text("short\n")
        for flags, said in ((["--port", str(server.port)], "Address already in use"), (["--token-file", "bad"], "16 to 256 letters")):
            done = subprocess.run([SETUP.gpumem, "serve", str(trace), *flags], cwd=self.folder, capture_output=True, text=True, timeout=WAIT_S)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        self.assertEqual(server.end(signal.SIGTERM)[0], 0)

    def test_its_numbers_are_those_of_live_and_html(self):
        trace = self.ended()
        server = self.serve(trace)
        live = json.loads(server.get("/live"))["processes"][0]
        asked = self.once(trace)["processes"][0]
        for frame in (live, asked):
            for line in frame["lines"]:
                line.pop("change_bytes")
            frame.pop("changes_since_ns")
        self.assertEqual(live, asked)
        html = json.loads(subprocess.run([SETUP.gpumem, "html", "--json", trace], capture_output=True, timeout=WAIT_S, check=True).stdout)
        self.assertEqual(json.loads(server.get("/data")), html)
        metrics = dict(line.rsplit(" ", 1) for line in server.get("/metrics").decode().splitlines() if line[0] != "#")
        device = live["devices"][0]
        labels = 'program="train",trace="run.gmtrace"'
        self.assertEqual(int(metrics[f'gpumemshim_allocated_bytes{{{labels},device="0"}}']), device["now"]["allocated_bytes"])
        self.assertEqual(int(metrics[f'gpumemshim_peak_reserved_bytes{{{labels},device="0"}}']), device["peak"]["reserved_bytes"])
        self.assertEqual(int(metrics[f"gpumemshim_steps{{{labels}}}"]), 3)
        self.assertEqual(int(metrics[f"gpumemshim_running{{{labels}}}"]), 0)
        documented = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "commands" / "serve.md").read_text(encoding="utf-8")
        for name in {metric.partition("{")[0] for metric in metrics}:
            self.assertIn(f"`{name}`", documented)

    def test_readers_that_hang_up_or_do_not_read_harm_nobody(self):
        program = self.start()
        self.step(program)
        server = self.serve("run.gmtrace")
        deaf = server.stream()  # never reads
        for i in range(20):
            stream = server.stream()
            if i % 2:
                stream.recv(10)
            stream.close()
            early = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)
            early.sendall(f"GET /data?token={server.token} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            early.close()
            server.get("/live")
        for garbage in (b"\0" * 5000, b"GET " + b"a" * 100_000, b"GET / HTTP/1.1\r\nX: " + b"b" * 100_000 + b"\r\n\r\n", b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as stream:
                try:
                    stream.sendall(garbage)
                    stream.shutdown(socket.SHUT_WR)
                    stream.recv(1000)
                except OSError:
                    pass  # it hung up, which is fine
        with server.stream() as stream:
            self.step(program)
            got = b""
            while not re.search(rb'"steps": \{"count": 2', got):
                got += stream.recv(1 << 16)
        deaf.close()
        self.assertEqual(server.end(), (0, ""))

    @unittest.skipUnless(chromium.find(), "no Chromium here (scripts/bootstrap --all installs it)")
    def test_the_page_keeps_up(self):
        program = self.start()
        self.step(program, 2)
        server = self.serve(self.folder)
        with chromium.Browser(loopback=True) as browser:
            page = browser.open_address(server.address)
            text = lambda selector: page.evaluate(f"document.querySelector('{selector}')?.innerText ?? ''")
            self.wait(lambda: "2 steps" in text("#live"), "steps")
            self.wait(lambda: page.evaluate("document.getElementById('waiting').hidden"), "the page's data")
            page.evaluate("document.getElementById('to-steps').click()")
            rows = "document.querySelector('#tab-text tbody')?.rows.length"  # stages follow in a table of their own
            self.wait(lambda: page.evaluate(rows) == 2, "two rows of steps")
            self.step(program, 5)
            self.wait(lambda: "7 steps" in text("#live"), "more steps above")
            self.wait(lambda: page.evaluate(rows) == 7, "more steps in the table of the same tab")
            self.finish(program)
            self.wait(lambda: "ended" in text("#live"), "the end")
            self.wait(lambda: "still running" not in text("#warnings"), "a page of the whole trace")
            self.assertEqual(page.complaints, [])
            self.assertEqual({re.sub(r"[?#].*", "", url) for url in page.requests}, {f"http://127.0.0.1:{server.port}/{path}" for path in ("", "data", "events")})
            self.assertEqual(server.end(), (0, ""))
            self.wait(lambda: "connection to gpumemshim serve is lost" in text("#live"), "that the server is gone")

    @unittest.skipUnless(chromium.find(), "no Chromium here (scripts/bootstrap --all installs it)")
    def test_what_cannot_be_read_is_said_in_the_page(self):
        (self.folder / "run.gmtrace").write_bytes(self.ended().read_bytes()[:40])
        server = self.serve(self.folder)
        with chromium.Browser(loopback=True) as browser:
            page = browser.open_address(server.address)
            said = self.wait(lambda: page.evaluate("(document.getElementById('waiting').innerText + document.getElementById('live').innerText).replace('Reading …', '')"), "a reason")
            self.assertRegex(said, "run.gmtrace|cannot be read|header|damaged")
        self.assertEqual(server.end()[0], 0)


if __name__ == "__main__":
    truth.run_tests(globals())
