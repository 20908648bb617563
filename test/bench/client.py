# SPDX-License-Identifier: Apache-2.0
"""The few requests that the benchmark makes by itself; load comes from wrk and watch_load."""

import contextlib
import http.client
import socket
import ssl
import threading
import time

from lab import BenchError
from server import POD

START_LIMIT = 60
GZIP = {"Accept-Encoding": "gzip"}
POLL = 0.0002
HEADERS = {"Accept": "application/json", "User-Agent": "operator/v1 (linux/amd64)"}


class NoAnswer(BenchError):
    """A proxy does not start, or does not get through to the server."""


def trust(authority):
    """What makes a connection TLS to a server that this authority (a path) signed: `tls` below."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    return context


def connection_to(port, tls):
    if tls is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=tls)


def get(port, path, headers=None, tls=None):
    """Status and body of one request on a connection of its own."""
    connection = connection_to(port, tls)
    try:
        connection.request("GET", path, headers={**HEADERS, **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def ask(port, path):
    """One request with as little around it as can be; the first bytes of the answer, or none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=START_LIMIT) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return s.recv(64)
    except OSError:
        return b""


def first_answer_ms(process, port, path=POD):
    """Asks until the proxy answers 200; milliseconds since it was executed."""
    answer = b""
    while time.monotonic_ns() - process.started_ns < START_LIMIT * 1e9:
        answer = ask(port, path)
        if answer.startswith(b"HTTP/1.1 200"):
            return (time.monotonic_ns() - process.started_ns) / 1e6
        if process.popen.poll() is not None:
            raise NoAnswer(f"{process.name} ended with {process.popen.returncode}: "
                           f"{process.log_tail()}")
        time.sleep(POLL)
    first = answer.split(b"\r\n")[0].decode(errors="replace") or "nothing"
    raise NoAnswer(f"{process.name} answered {first} for {START_LIMIT} s: {process.log_tail()}")


@contextlib.contextmanager
def many_connections(port, count):
    sockets = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        yield sockets
    finally:
        for s in sockets:
            s.close()


def ask_all(sockets):
    """One request on each before any answer is read; every answer must be 200."""
    request = f"GET {POD} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for s in sockets:
        s.sendall(request)
    for s in sockets:
        response = http.client.HTTPResponse(s)
        response.begin()
        response.read()
        if response.status != 200:
            raise BenchError(f"GET {POD} was answered {response.status}")


def warm(port, connections):
    """Asks on many connections at once, so that the proxy has as many to the server."""
    with many_connections(port, connections) as sockets:
        for _ in range(5):
            ask_all(sockets)


def start_at_once(port, count):
    """Asks once on each of so many connections, at once."""
    with many_connections(port, count) as sockets:
        ask_all(sockets)


class SlowReader:
    """Takes little of a long answer for a while, and then the rest, in a thread: others that share a
    connection to the server may have to wait for it."""

    PART = 16384
    PAUSE = 0.02

    def __init__(self, port, path, seconds):
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self.port = port
        self.seconds = seconds
        self.body = None
        self.error = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            with socket.socket() as s:
                # Else the kernel would take megabytes for us.
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                s.settimeout(60)
                s.connect(("127.0.0.1", self.port))
                s.sendall(self.request)
                self.read(http.client.HTTPResponse(s))
        except (OSError, http.client.HTTPException) as e:
            self.error = e

    def read(self, response):
        response.begin()
        parts, deadline = [], time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            parts.append(response.read(self.PART))
            time.sleep(self.PAUSE)
        self.body = b"".join([*parts, response.read()])

    def check(self, expected):
        """Waits for its end: it must have got what is there."""
        self.thread.join()
        if self.error is not None:
            raise BenchError(f"a slow reader: {self.error}")
        if self.body != expected:
            raise BenchError(f"a slow reader got {len(self.body)} bytes, or others, instead of "
                             f"{len(expected)}")


class Kept:
    """One connection that is kept for many requests. Use as a context manager."""

    def __init__(self, port, path=POD, headers=None, tls=None):
        self.connection = connection_to(port, tls)
        self.path = path
        self.headers = {**HEADERS, **(headers or {})}

    def ask(self, count):
        """One request after the other; every answer must be 200."""
        for _ in range(count):
            self.connection.request("GET", self.path, headers=self.headers)
            response = self.connection.getresponse()
            response.read()
            if response.status != 200:
                raise BenchError(f"GET {self.path} was answered {response.status}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.connection.close()


def gets(port, count, path=POD, headers=None, tls=None):
    """Asks `count` times in a row on one connection."""
    with Kept(port, path, headers, tls) as kept:
        kept.ask(count)


class Fresh:
    """A connection for each request, which the proxy ends. None resumes a TLS session: those of
    client-go do not either."""

    REQUEST = f"GET {POD} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()

    def __init__(self, port, tls=None):
        self.port = port
        self.tls = tls

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s if self.tls is None else self.tls.wrap_socket(s, server_hostname="127.0.0.1")

    def ask(self, count):
        for _ in range(count):
            with self.connect() as s:
                s.sendall(self.REQUEST)
                response = http.client.HTTPResponse(s)
                response.begin()
                response.read()
                if response.status != 200:
                    raise BenchError(f"GET {POD} was answered {response.status}")
                if s.recv(1):
                    raise BenchError("more came than the answer")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass
