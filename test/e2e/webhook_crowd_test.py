#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Neighbours that crowd the port of the webhooks: bodies that are announced and do not come,
connections that stay silent, handshakes in a loop; while users create pods that are injected.

Each neighbour has a loopback address of its own; the API server comes from 127.0.0.1.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import socket
import ssl
import threading
import time

import harness
import mesh
import wire
from webhook_case import WebhookCase
from webhook_test import operator, sharding_config

BODY_MAX = 8 * 1024 * 1024  # that a review may have
PLACES = 512  # connections that a manager takes
AT_ONCE = 40  # pods that are created at the same time: the API server keeps 25 connections


class Neighbour:
    """Threads that do something from one address for as long as the context lasts."""

    def __init__(self, address, source, threads=1):
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.source = source
        self.tls = ssl.create_default_context()
        self.tls.check_hostname = False
        self.tls.verify_mode = ssl.CERT_NONE
        self.over = threading.Event()
        self.done = 0  # what it does was done so often
        self.ready = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        if not self.ready.wait(60):
            self.__exit__()
            raise AssertionError(f"{type(self).__name__} did not come to its work")
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def connect(self):
        plain = socket.create_connection(self.address, 15, (self.source, 0))
        try:
            return self.tls.wrap_socket(plain)
        except OSError:
            plain.close()
            raise

    def run(self):
        while not self.over.is_set():
            try:
                self.act()
            except OSError:
                self.over.wait(0.02)  # refused or cut off: come again

    def act(self):
        raise NotImplementedError

    def count(self, enough):
        self.done += 1
        if self.done >= enough:
            self.ready.set()


class Announcer(Neighbour):
    """Announces the largest body there may be, sends a byte, waits to be closed, comes again."""

    def act(self):
        with self.connect() as connection:
            connection.sendall(
                b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n{" % BODY_MAX
            )
            self.count(len(self.threads))
            connection.settimeout(0.2)
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(1000):
                        return


class Trickler(Neighbour):
    """Sends a body a byte at a time, on each of many connections."""

    def act(self):
        with self.connect() as connection:
            connection.sendall(
                b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100000\r\n\r\n"
            )
            self.count(len(self.threads))
            while not self.over.wait(0.05):
                connection.sendall(b" ")


class Silent(Neighbour):
    """Holds as many connections as the manager takes, after the handshake, and says nothing."""

    def __init__(self, address, source):
        super().__init__(address, source)
        self.held = []

    def act(self):
        if len(self.held) >= PLACES - 1:
            self.ready.set()
            self.held = [c for c in self.held if not self.ended(c)]
            self.over.wait(0.05)
            return
        try:
            self.held.append(self.connect())
        except OSError:
            self.ready.set()  # others have places
            raise

    @staticmethod
    def ended(connection):
        connection.settimeout(0)
        try:
            connection.recv(1)
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        except OSError:
            pass
        connection.close()
        return True

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        for connection in self.held:
            connection.close()


class Shaker(Neighbour):
    """Shakes hands and goes, in a loop."""

    def act(self):
        self.connect().close()
        self.count(50)


class Asker(Neighbour):
    """Sends a review, takes the answer, and sends it again."""

    def __init__(self, address, source, threads, path, review):
        super().__init__(address, source, threads)
        body = json.dumps(review, separators=(",", ":")).encode()
        head = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        self.request = head.format(path, len(body)).encode() + body

    def act(self):
        with wire.Stream(self.connect()) as connection:
            connection.sock.settimeout(30)
            while not self.over.is_set():
                connection.send(self.request)
                try:
                    head = wire.Head(connection.read_head_lines())
                    connection.need(int(head.get("Content-Length")))
                except wire.Cut:
                    return
                connection.input = b""
                self.count(2 * len(self.threads))


def costly_config(namespace):
    """Review of a ShardingConfig that takes longer than others that are as small."""
    keys = [{"key": f"k{n}", "operator": "Exists"} for n in range(57)]
    wide = mesh.limit({"matchExpressions": keys}, ["*"], ["*"])
    narrow = mesh.limit({"matchExpressions": keys[:1]}, [f"r{n}" for n in range(237)], ["*"])
    thing = mesh.config("x", "x", wide, narrow)
    thing["metadata"]["namespace"] = namespace
    resource = {"group": mesh.GROUP, "version": "v1alpha1", "resource": "shardingconfigs"}
    request = {"uid": "x", "operation": "CREATE", "namespace": namespace, "name": "x",
               "resource": resource, "object": thing}  # fmt: skip
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


class Case(WebhookCase):
    def setUp(self):
        super().setUp()
        self.ns = self.namespace()
        self.create(sharding_config(self.ns))
        harness.wait_for(self.injected, "the shard is known")

    def injected(self):
        """Whether a pod would be created with the sidecars."""
        path = f"/api/v1/namespaces/{self.ns}/pods?dryRun=All"
        body = json.dumps(operator(self.ns)).encode()
        answer = self.cluster.fetch(path, "POST", [("Content-Type", "application/json")], body)
        return answer.status == 201 and b"cmesh-localproxy" in answer.body

    def pods_are_injected(self, rounds=4):
        """Many at once each time, so that the API server needs connections it has not got."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in range(rounds):
                futures = [pool.submit(self.injected) for _ in range(AT_ONCE)]
                results = [f.result() for f in futures]
                self.assertEqual([True] * AT_ONCE, results, self.manager.log()[-3000:])

    def dropped(self, *reasons):
        metrics = self.manager.metrics()
        return sum(metrics[f'cmesh_webhook_dropped_total{{reason="{r}"}}'] for r in reasons)

    def is_well(self):
        self.assertEqual(200, wire.fetch(self.manager.admin, "/healthz").status)

    def memory_kib(self):
        with open(f"/proc/{self.manager.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"^VmHWM:\s+(\d+) kB", f.read(), re.M)[1])


class CrowdTest(Case):
    def test_bodies_that_are_announced_and_do_not_come(self):
        with Announcer(self.webhook, "127.0.0.2", 12):
            self.pods_are_injected()
            self.is_well()
            harness.wait_for(lambda: self.dropped("slow_body") > 0, "slow bodies are ended")

    def test_bodies_that_come_byte_by_byte(self):
        with Trickler(self.webhook, "127.0.0.2", 30):
            self.pods_are_injected()
            harness.wait_for(lambda: self.dropped("slow_body") >= 30, "slow bodies are ended")

    def test_connections_that_stay_silent(self):
        with Silent(self.webhook, "127.0.0.3"):
            self.pods_are_injected()
            harness.wait_for(
                lambda: self.dropped("silent", "replaced") > 0, "silent connections are ended"
            )

    def test_connections_that_stay_silent_and_have_the_address_of_the_api_server(self):
        """As behind a NAT: nobody can tell them apart, but silent ones have to go first."""
        with Silent(self.webhook, "127.0.0.1"):
            self.pods_are_injected()

    def test_handshakes_in_a_loop(self):
        with Shaker(self.webhook, "127.0.0.4", 4):
            self.pods_are_injected()
            self.is_well()

    def test_reviews_that_are_smaller_than_others(self):
        """A shard of some size is changed while somebody else's reviews wait, too many of them."""
        thing = sharding_config(self.ns)
        values = mesh.is_in(harness.NAMESPACE_LABEL, *(f"namespace-{n}" for n in range(400)))
        thing["spec"]["limits"] = [mesh.limit(values)]
        path = f"{mesh.API}/namespaces/{self.ns}/shardingconfigs/{thing['metadata']['name']}"
        change = json.dumps({"spec": thing["spec"]}).encode()
        kind = [("Content-Type", "application/merge-patch+json")]
        review = costly_config(self.ns)
        with Asker(self.webhook, "127.0.0.5", 100, "/validate/shardingconfigs", review):
            for _ in range(5):
                answer = self.cluster.fetch(path + "?dryRun=All", "PATCH", kind, change)
                self.assertEqual(200, answer.status, answer.body)
        self.assertGreater(self.manager.metrics()["cmesh_webhook_turned_away_total"], 0)

    def test_all_at_once(self):
        before = self.memory_kib()
        with contextlib.ExitStack() as stack:
            for neighbour in (
                Announcer(self.webhook, "127.0.0.2", 12),
                Silent(self.webhook, "127.0.0.3"),
                Shaker(self.webhook, "127.0.0.4", 2),
            ):
                stack.enter_context(neighbour)
            self.pods_are_injected(rounds=6)
            begun = time.monotonic()
            thing = self.create(operator(self.ns), dry_run=True)
            print(f"kubectl create took {time.monotonic() - begun:.2f} s", flush=True)
            names = [c["name"] for c in thing["spec"]["initContainers"]]
            self.assertIn("cmesh-localproxy", names + [c["name"] for c in thing["spec"]["containers"]])
            self.is_well()
        harness.wait_for(
            lambda: self.manager.metrics()["cmesh_webhook_connections"] <= 2 * AT_ONCE,
            "their connections are gone",
        )
        print(f"VmHWM {before} -> {self.memory_kib()} kB", flush=True)
