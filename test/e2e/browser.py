# SPDX-License-Identifier: Apache-2.0
"""A real browser, Chromium, with nobody before it: pages of a test's own, and what they report."""

import glob
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

import harness

PROGRAM = shutil.which("chromium")
# What Chromium itself does about pages that ask this machine: off, as it is in other browsers.
ITS_OWN_CHECKS = (
    "LocalNetworkAccessChecks",
    "LocalNetworkAccessChecksWebSockets",
    "BlockInsecurePrivateNetworkRequests",
    "PrivateNetworkAccessSendPreflights",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
)


class Pages:
    """Serves pages at any path, and takes what they report, of whatever origin they are."""

    def __init__(self, pages, port=0):
        self.reports = queue.Queue()
        reports = self.reports

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # pylint: disable=invalid-name
                path = urllib.parse.urlsplit(self.path).path
                found = pages.get(path)
                self.answer(200 if found else 404, (found or "").encode())

            def do_POST(self):  # pylint: disable=invalid-name
                reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer(200, b"")

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Access-Control-Allow-Origin", "*")
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # the browser has been ended

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def report(self, timeout=60):
        return self.reports.get(timeout=timeout)

    def close(self):
        """Its port is free then."""
        if self.thread is not None:
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()
            self.thread = None


class Browser:
    """Chromium that has opened a page. It ends with the process that started it."""

    def __init__(self, folder, url, names=()):
        """`names`: those that lead to this machine."""
        self.profile = os.path.join(folder, "chromium")
        self.log_path = os.path.join(folder, "chromium.log")
        command = ["setpriv", "--pdeathsig", "KILL", PROGRAM, "--headless", "--disable-gpu"]
        command += [f"--user-data-dir={self.profile}", "--no-first-run", "--disable-sync"]
        command += ["--disable-background-networking", "--disable-component-update"]
        command += ["--disable-breakpad", "--disable-crash-reporter", "--disable-dev-shm-usage"]
        command += ["--disable-features=" + ",".join(ITS_OWN_CHECKS)]
        rules = [f"MAP {name} 127.0.0.1" for name in names]
        command += ["--host-resolver-rules=" + ",".join([*rules, "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])]
        if os.geteuid() == 0:
            command += ["--no-sandbox"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--remote-debugging-port=0", url], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=harness.clean_environment(HOME=folder),
            )  # fmt: skip

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def processes(self):
        """Those that have its folder on their command line, as all have that it starts."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as f:
                    if self.profile.encode() in f.read():
                        found.append(int(path.split("/")[2]))
            except OSError:
                pass  # it has ended
        return found

    def close(self, timeout=20):
        """Ends it with all that it has started."""
        deadline = time.monotonic() + timeout
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        while left := self.processes():
            if time.monotonic() > deadline:
                raise AssertionError(f"these do not end: {left}")
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
