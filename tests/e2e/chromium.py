# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Drives a headless Chromium over its DevTools pipe: no driver program and no package beside the browser itself.

    with Browser() as browser:
        page = browser.open("flame.html")
        page.evaluate("document.title")
        page.click(100, 50)

The browser runs where there is no network: in a network namespace of its own where this machine allows one, and in any case with a resolver
that knows no host. Every request of the page is kept in `requests`. A call that gets no answer raises after TIMEOUT_S; the browser's process
group is ended with the context.
"""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

TIMEOUT_S = 120
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--force-color-profile=srgb", "--proxy-server=127.0.0.1:9",
)
NO_HOST = "--host-resolver-rules=MAP * ~NOTFOUND"


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def without_network():
    """What to put before a command so that it has no network; [] where that is not allowed here."""
    probe = ["unshare", "--user", "--map-root-user", "--net", "true"]
    try:
        allowed = subprocess.run(probe, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        allowed = False
    return probe[:-1] if allowed else []


class Browser:
    """`loopback`: 127.0.0.1 alone can be reached, for pages that a server of the test gives."""

    def __init__(self, width=1280, height=800, loopback=False):
        self.folder = tempfile.mkdtemp(prefix="gpumemshim-chromium-")
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        cut_off = [] if loopback else without_network()
        command = [*cut_off, find(), *FLAGS, NO_HOST + (", EXCLUDE 127.0.0.1" if loopback else ""), f"--user-data-dir={self.folder}", f"--window-size={width},{height}"]
        if cut_off or os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium refuses to sandbox itself as root
        # The browser reads descriptor 3 and writes 4; the pipes' own numbers must not be in the way of that.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{ends[0]} 4>&{ends[1]} {ends[0]}<&- {ends[1]}>&-; exec "$@"', "bash", *command],
            pass_fds=ends, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.folder})
        for end in ends:
            os.close(end)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.next_id = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        """The next message of the browser."""
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.read_end, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError(f"Chromium {'ended' if ready else 'did not answer'}")
            self.buffer += chunk
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method, session):
        """The first event of that name, also one that came before."""
        at = 0
        while True:
            for event in self.events[at:]:
                at += 1
                if event.get("method") == method and event.get("sessionId") == session:
                    return event["params"]
            self.events.append(self.receive())

    def open(self, path, fragment=""):
        return self.open_address(pathlib.Path(path).resolve().as_uri() + fragment)

    def open_address(self, address):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, target, session, address)


class Page:
    def __init__(self, browser, target, session, url):
        self.browser = browser
        self.target = target
        self.session = session
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        browser.wait_for("Page.loadEventFired", session)
        self.settle()

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def events(self, *methods):
        return [event for event in self.browser.events if event.get("sessionId") == self.session and event.get("method") in methods]

    @property
    def requests(self):
        """What left the page's policy; what it stopped is among the complaints."""
        stopped = {event["params"]["requestId"] for event in self.events("Network.loadingFailed") if event["params"].get("blockedReason") == "csp"}
        sent = [event["params"] for event in self.events("Network.requestWillBeSent")]
        return [request["request"]["url"] for request in sent if request["requestId"] not in stopped]

    @property
    def complaints(self):
        """Uncaught errors, and what the browser logged (violations of the content security policy among them). Its advice on how to draw
        faster, which follows from tests that look at pixels, is left out."""
        self.evaluate("0")
        events = self.events("Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in events if event["params"].get("entry", {}).get("source") != "rendering"]

    def forget_complaints(self):
        self.browser.events = [event for event in self.browser.events if event.get("method") not in ("Runtime.exceptionThrown", "Log.entryAdded")]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self):
        """Returns when what was asked for is painted."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def click_on(self, selector):
        x, y = self.evaluate(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                             " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self.click(x, y)

    def press(self, key):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def size(self, width, height, ratio=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=False)
        self.settle()

    def media(self, kind="", **features):
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", media=kind, features=named)
        self.settle()

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
