#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for election with the Python client's leaderelection module, which locks by a ConfigMap, in
a pod; prints how it goes, a JSON object a line.

    elector.py NAMESPACE NAME IDENTITY

"quit" on standard input, or its end, ends the program.
"""
import json
import os
import sys
import threading
import time

from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock


def say(kind):
    print(json.dumps({"kind": kind, "t": time.time_ns()}), flush=True)


def main():
    namespace, name, identity = sys.argv[1:]
    config.load_incluster_config()
    election = electionconfig.Config(
        ConfigMapLock(name, namespace, identity),
        lease_duration=8,
        renew_deadline=6,
        retry_period=1,
        onstarted_leading=lambda: say("leading"),
        onstopped_leading=lambda: say("stopped"),
    )
    threading.Thread(target=leaderelection.LeaderElection(election).run, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "quit":
            break
    os._exit(0)  # the thread is in the middle of its work


main()
