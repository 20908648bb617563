#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands still takes nothing from what flows: while requests of one kind are not read, not
sent or not answered, requests of every other kind are answered and streams bring what is new, on
connections to the API server that they share. By hand, with a table and as many as there may be:

    test/e2e/standstill_test.py --table 1 100 1000
"""

import re
import socket
import sys
import threading
import time

import harness
import many_streams
import upstream
import wire

POD = "/api/v1/namespaces/a/pods/p"
PODS = "/api/v1/namespaces/a/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/a/leases/lock"
SERVICE = "/api/v1/namespaces/a/services/s/proxy/x"
BODY = 600 * 1024  # of what is uploaded
TABLE = "--table" in sys.argv
LASTS = 6.0  # seconds, for the table
READ_FIRST = 2 << 20  # bytes, by so many of them
READERS = 30


def request(method, target, *headers, body=0):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines += [f"Content-Length: {body}", "Content-Type: application/json"]
    return "\r\n".join(lines + ["", ""]).encode()


UPGRADE = ("Connection: Upgrade", "Upgrade: SPDY/3.1")

# What stands still: a request as it is sent. Of an endless answer some is read, as fast as it comes;
# then nothing is read, and nothing more is sent.
STANDING = {
    "list unread": request("GET", f"{PODS}?endless"),
    "get unread": request("GET", f"{POD}?endless"),
    "watch unread": request("GET", f"{PODS}?watch=1&endless"),
    "log unread": request("GET", f"{POD}/log?follow=true&endless"),
    "exec unread": request("POST", f"{POD}/exec?command=x&endless", *UPGRADE, "Content-Length: 0"),
    "proxy unread": request("GET", f"{SERVICE}?endless"),
    "upload unread": request("POST", f"{SERVICE}?unread", body=BODY) + b"x" * BODY,
    "small upload unread": request("POST", f"{SERVICE}?unread", body=9000) + b"x" * 9000,
    "upload unsent": request("POST", "/api/v1/namespaces/a/secrets", body=BODY) + b"x" * 3000,
    "get unanswered": request("GET", f"{POD}?silent"),
}


class Flow:
    """Something that goes on. Each sign of it has the time when it was sent or asked for."""

    def __init__(self, proxy, name, retries):
        self.proxy = proxy
        self.name = name
        self.begun = time.monotonic()
        self.latest = 0.0  # of a sign
        self.largest = 0.0  # age of one that came
        self.failed = None
        self.ends = False
        self.retries = retries  # as clients do, with a time limit as theirs
        self.timeout = 5 if retries else 60
        self.thread = threading.Thread(target=self.run, daemon=True)

    def measure_anew(self):
        self.largest = 0.0
        self.begun = time.monotonic()

    def sign(self, stamp):
        self.latest = stamp
        if stamp >= self.begun:
            self.largest = max(self.largest, time.monotonic() - stamp)

    def delay(self):
        return max(self.largest, time.monotonic() - max(self.begun, self.latest))

    def run(self):
        while not self.ends and not self.failed:
            try:
                self.go()
            except (OSError, AssertionError, wire.Cut) as error:
                if not self.retries:
                    self.failed = None if self.ends else error


class Asking(Flow):
    """One request after the other, each on the same connection of the client's."""

    method, target, body = "GET", POD, b""

    def go(self):
        with self.proxy.connect(timeout=self.timeout) as connection:
            while not self.ends:
                asked = time.monotonic()
                headers = [("Content-Type", "application/json")] if self.body else []
                answer = connection.request(self.method, self.target, headers, self.body or None)
                if answer.status != 200:
                    raise AssertionError(f"{self.name}: {answer}")
                self.sign(asked)
                time.sleep(many_streams.TICK)


class Listing(Asking):
    target = PODS


class Renewing(Asking):
    """Of leader election."""

    method, target, body = "PUT", LEASE, b'{"spec":{"holderIdentity":"x"}}'


class Creating(Asking):
    method, target, body = "POST", "/api/v1/namespaces/a/configmaps", b'{"x":"%s"}' % (b"x" * 20000)


class Opening(Flow):
    """Streams that are opened, until their first event."""

    target = f"{PODS}?watch=1&ticking"

    def go(self):
        with self.proxy.connect() as connection:
            asked = time.monotonic()
            connection.send(request("GET", self.target))
            connection.read_head()
            connection.read_some()
            self.sign(asked)
        time.sleep(many_streams.TICK)


class Streaming(Flow):
    """A stream that is open: events have the time in place of a version."""

    target = f"{PODS}?watch=1&ticking"

    def go(self):
        with self.proxy.connect() as connection:
            connection.send(request("GET", self.target))
            connection.read_head()
            while not self.ends:
                for version in re.findall(rb'Version":"([0-9]+)"', connection.read_some()):
                    self.sign(int(version) / 1e6)


class Logging(Streaming):
    target = f"{POD}/log?follow=true&ticking"


FLOWS = {
    "event": Streaming,
    "log line": Logging,
    "watch opens": Opening,
    "get": Asking,
    "list": Listing,
    "Lease put": Renewing,
    "create 20 KB": Creating,
}


class StandstillTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        authority = self.authority()
        context = upstream.server_context(*authority.server(), upstream.HTTP2)
        self.server = many_streams.Server(context)
        self.addCleanup(self.end_server)
        kubeconfig = upstream.write_kubeconfig(
            self.path("kubeconfig"), self.server.url, authority=authority.certificate, token="t"
        )
        limits = [harness.limit(["pods"], "app=foo")]
        self.process = self.scripted_proxy(limits, kubeconfig, args=["--write-fence=off"])
        self.flows = {}
        self.standing = []

    def end_server(self):
        self.server.close()
        self.assertEqual([], self.server.errors)

    def begin_flows(self, retries=False):
        for name, kind in FLOWS.items():
            self.flows[name] = kind(self.process, name, retries)
            self.flows[name].thread.start()
        self.addCleanup(self.end_flows)

    def end_flows(self):
        for flow in self.flows.values():
            flow.ends = True
        for s in self.standing:
            s.close()
        for flow in self.flows.values():
            flow.thread.join(60)

    def stand_still(self, kinds, count):
        host, _, port = self.process.listen.rpartition(":")
        before = self.server.requests
        for i in range(count):
            data = STANDING[kinds[i % len(kinds)]]
            s = socket.socket()
            s.connect((host, int(port)))
            s.settimeout(0.5)
            self.standing.append(s)
            try:
                s.sendall(data)
                left = READ_FIRST if b"endless" in data and i < READERS else 0
                while left > 0:
                    left -= len(s.recv(1 << 16))
            except TimeoutError:
                pass  # it stands still here
        harness.wait_for(lambda: self.server.requests - before >= count, "all were asked")

    def begin(self, kinds, count, leaves=False):
        """So many of these stand still, beside all that goes on."""
        self.begin_flows()
        if leaves:
            for _ in range(2):  # connections that the server leaves, with watches open on them
                self.stand_still(["watch unread"], 1)
                self.server.leave.set()
                harness.wait_for(lambda: not self.server.leave.is_set(), "the server leaves")
        self.stand_still(kinds, count)
        time.sleep(1)  # what they may take is taken

    def check(self, kinds, count, leaves=False):
        """What goes on shows signs that are younger than the standstill."""
        self.begin(kinds, count, leaves)
        begun = time.monotonic()
        for name, flow in self.flows.items():
            harness.wait_for(
                lambda flow=flow: flow.failed or flow.latest > begun + 0.5,
                f"{name} goes on beside {count} of {kinds}",
            )
            self.assertIsNone(flow.failed, name)

    def measure(self, kinds, count, leaves=False):
        """The largest delay of each flow while so many of these stand still."""
        self.begin(kinds, count, leaves)
        for flow in self.flows.values():
            flow.measure_anew()
        time.sleep(LASTS)
        return {
            name: float("inf") if flow.failed else flow.delay() for name, flow in self.flows.items()
        }

    def test_each_kind(self):
        for kind in STANDING:
            with self.subTest(kind):
                self.check([kind], 30)
                self.end_flows()
                self.standing.clear()

    def test_connections_that_leave(self):
        """What is left is the third connection of three."""
        self.check(["log unread"], 1, leaves=True)

    def test_a_connection_that_passes_nothing_on(self):
        """It answers PINGs. A Lease is renewed elsewhere at the next try, and streams end in time for
        their clients to ask again."""
        self.begin_flows(retries=True)
        self.stand_still(["watch unread"], 5)
        for flow in self.flows.values():
            harness.wait_for(lambda flow=flow: flow.latest > 0, f"{flow.name} goes on")
        begun = time.monotonic()
        self.server.stall.set()
        for name, flow in self.flows.items():
            harness.wait_for(lambda flow=flow: flow.latest > begun + 1, f"{name} goes on")
        self.assertGreater(self.process.metrics()["cmesh_proxy_upstream_connections_stalled_total"], 0)
        self.assertIn("answers PINGs on it, but no requests", self.process.log())
        self.assertIn("/livez", self.server.seen)

    def test_many(self):
        self.check(list(STANDING), 400)


def print_table(counts):
    names = list(FLOWS)
    print("largest delay, ms, beside")
    print(f"{'':22}{'':6}" + "".join(f"{name:>13}" for name in names))
    for kind in [*STANDING, "all kinds"]:
        for count in counts:
            for leaves in (False, True):
                test = StandstillTest()
                test.setUp()
                try:
                    kinds = list(STANDING) if kind == "all kinds" else [kind]
                    delays = test.measure(kinds, count, leaves)
                finally:
                    test.doCleanups()
                row = "".join(f"{1000 * delays[name]:13.0f}" for name in names)
                print(f"{kind:22}{count:4}{' L' if leaves else '  '}" + row, flush=True)


if __name__ == "__main__":
    if TABLE:
        at = sys.argv.index("--table")
        print_table([int(text) for text in sys.argv[at + 1 :]] or [1, 100, 1000])
    else:
        harness.main()
