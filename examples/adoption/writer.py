#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The users of the demo: so many times a second, one of them changes the ConfigMap `settings` of a namespace.

    writer.py RATE NAMESPACE...

until SIGTERM, with the variables that `test/cluster/cluster run` sets.
"""

import http.client
import json
import os
import random
import signal
import ssl
import sys
import threading
import time
import urllib.parse

HEADERS = {"Content-Type": "application/merge-patch+json"}


def main():
    rate, spaces = float(sys.argv[1]), sys.argv[2:]
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    tls = ssl.create_default_context(cafile=os.environ["CLUSTER_CA"])
    tls.load_cert_chain(os.environ["CLUSTER_CERT"], os.environ["CLUSTER_KEY"])
    server = urllib.parse.urlsplit(os.environ["APISERVER"]).netloc
    connection = http.client.HTTPSConnection(server, timeout=30, context=tls)
    number, due = 0, time.monotonic()
    while not over.wait(max(0, due - time.monotonic())):
        due = max(due + 1 / rate, time.monotonic() - 1)  # what is late is caught up with, for a second
        number += 1
        path = f"/api/v1/namespaces/{random.choice(spaces)}/configmaps/settings"
        body = json.dumps({"data": {"number": str(number)}})
        connection.request("PATCH", path, body, HEADERS)
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"writer: {path}: {answer.status} {answer.read()}")
        answer.read()


main()
