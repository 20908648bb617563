#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The users of the demo: so many times a second, one of them changes the ConfigMap `settings` of a namespace.

    writer.py RATE NAMESPACE...

until it is ended, with the variables that `test/cluster/cluster run` sets.
"""

import http.client
import json
import os
import random
import ssl
import sys
import time
import urllib.parse

HEADERS = {"Content-Type": "application/merge-patch+json"}


def main():
    rate, spaces = float(sys.argv[1]), sys.argv[2:]
    tls = ssl.create_default_context(cafile=os.environ["CLUSTER_CA"])
    tls.load_cert_chain(os.environ["CLUSTER_CERT"], os.environ["CLUSTER_KEY"])
    server = urllib.parse.urlsplit(os.environ["APISERVER"]).netloc
    connection = http.client.HTTPSConnection(server, timeout=30, context=tls)
    number, due = 0, time.monotonic()
    while True:
        time.sleep(max(0, due - time.monotonic()))
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
