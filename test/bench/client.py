# SPDX-License-Identifier: Apache-2.0
"""The few requests that the benchmark makes by itself; load comes from wrk and watch_load."""

import http.client
import socket
import time

from lab import BenchError
from server import POD

START_LIMIT = 60
POLL = 0.0002
HEADERS = {"Accept": "application/json", "User-Agent": "operator/v1 (linux/amd64)"}


class NoAnswer(BenchError):
    """A proxy does not start, or does not get through to the server."""


def get(port, path, headers=None):
    """Status and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={**HEADERS, **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def ask(port):
    """One request with as little around it as can be; the first bytes of the answer, or none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=START_LIMIT) as s:
            s.sendall(f"GET {POD} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return s.recv(64)
    except OSError:
        return b""


def first_answer_ms(process, port):
    """Asks until the proxy answers 200; milliseconds since it was executed."""
    answer = b""
    while time.monotonic_ns() - process.started_ns < START_LIMIT * 1e9:
        answer = ask(port)
        if answer.startswith(b"HTTP/1.1 200"):
            return (time.monotonic_ns() - process.started_ns) / 1e6
        if process.popen.poll() is not None:
            raise NoAnswer(f"{process.name} ended with {process.popen.returncode}: "
                           f"{process.log_tail()}")
        time.sleep(POLL)
    first = answer.split(b"\r\n")[0].decode(errors="replace") or "nothing"
    raise NoAnswer(f"{process.name} answered {first} for {START_LIMIT} s: {process.log_tail()}")


def warm(port, connections):
    """Asks on many connections at once, so that the proxy has as many to the server."""
    request = f"GET {POD} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    sockets = [socket.create_connection(("127.0.0.1", port), timeout=60)
               for _ in range(connections)]
    try:
        for _ in range(5):
            for s in sockets:
                s.sendall(request)
            for s in sockets:
                response = http.client.HTTPResponse(s)
                response.begin()
                response.read()
    finally:
        for s in sockets:
            s.close()


def gets(port, count, path=POD, headers=None):
    """Asks `count` times in a row on one connection; every answer must be 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for _ in range(count):
            connection.request("GET", path, headers={**HEADERS, **(headers or {})})
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                raise BenchError(f"GET {path} was answered {response.status}")
    finally:
        connection.close()
