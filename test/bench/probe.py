#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks for one small object at a steady pace on one connection, until its standard input ends.

    probe.py PORT PATH

Prints a JSON object {"samples": [[when it was due, nanoseconds until its answer], ...]}; times are
CLOCK_MONOTONIC. An answer that is late does not slow the pace: those due meanwhile are late too.
"""

import json
import select
import socket
import sys
import time

INTERVAL_NS = 2_000_000


def read_answer(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        data += receive(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"answered {head[:100]!r}")
    length = int(head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += receive(sock)


def receive(sock):
    data = sock.recv(65536)
    if not data:
        raise OSError("the connection was closed")
    return data


def main():
    port, path = int(sys.argv[1]), sys.argv[2]
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode()
    samples = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due = time.monotonic_ns()
        while not select.select([sys.stdin], [], [], 0)[0]:
            wait = due - time.monotonic_ns()
            if wait > 0:
                time.sleep(wait / 1e9)
            sock.sendall(request)
            read_answer(sock)
            samples.append((due, time.monotonic_ns() - due))
            due += INTERVAL_NS
    print(json.dumps({"samples": samples}), flush=True)


main()
