#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small operator. It writes into the ConfigMap `report` of a namespace which number it has seen in
`settings` there. It has in-cluster configuration, a list and a watch, leader election by a Lease, and ends
on SIGTERM when its work has ended. It knows nothing of shards.

    reporter.py ACCOUNT READY

ACCOUNT is the folder of the pod's service account, in a pod /var/run/secrets/kubernetes.io/serviceaccount.
The file READY is made when the operator has listed what it follows.
"""

import datetime
import http.client
import json
import os
import signal
import ssl
import sys
import threading
import time

ACCOUNT, READY = sys.argv[1:]
POD = os.environ["POD_NAME"]
LEASE, RENEW, RETRY = 3, 2, 0.3  # seconds: how long a Lease holds, may go unrenewed, and between tries
over = threading.Event()


def read(name):
    with open(os.path.join(ACCOUNT, name), encoding="utf-8") as f:
        return f.read().strip()


class Client:
    """As rest.InClusterConfig() has it; each thread has one."""

    def __init__(self, timeout):
        place = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
        tls = ssl.create_default_context(cafile=os.path.join(ACCOUNT, "ca.crt"))
        self.connection = http.client.HTTPSConnection(*place, timeout=timeout, context=tls)
        self.headers = {"Authorization": "Bearer " + read("token"), "Content-Type": "application/json",
                        "User-Agent": "reporter"}  # fmt: skip

    def open(self, method, path, body=None):
        try:
            self.connection.request(method, path, body and json.dumps(body), self.headers)
            return self.connection.getresponse()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise

    def ask(self, method, path, body=None):
        answer = self.open(method, path, body)
        text = answer.read()
        return answer.status, json.loads(text) if answer.status < 300 else {}


class Election:
    """client-go's, in short: who holds the Lease leads, and gives it back at the end."""

    def __init__(self):
        self.client = Client(RENEW)
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{read('namespace')}/leases"
        self.seen, self.since = None, 0
        self.until = 0

    def leads(self):
        return time.monotonic() < self.until

    def attempt(self):
        asked = time.monotonic()
        status, lease = self.client.ask("GET", f"{self.leases}/report-operator")
        if status not in (200, 404):
            return
        spec = lease.get("spec", {})
        if spec != self.seen:
            self.seen, self.since = spec, asked
        holder = spec.get("holderIdentity")
        if not holder or holder == POD or asked - self.since > LEASE:
            self.until = asked + RENEW if self.write(lease, POD) else 0
        else:
            self.until = 0

    def write(self, lease, holder):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE, "renewTime": now}
        if not lease:
            body = {"metadata": {"name": "report-operator"}, "spec": spec}
            return self.client.ask("POST", self.leases, body)[0] == 201
        body = {**lease, "spec": spec}
        return self.client.ask("PUT", f"{self.leases}/report-operator", body)[0] == 200

    def give_back(self):
        status, lease = self.client.ask("GET", f"{self.leases}/report-operator")
        if status == 200 and lease["spec"].get("holderIdentity") == POD:
            self.write(lease, "")


class Cache:
    """What was listed and watched, and the namespaces that are to be looked at."""

    def __init__(self):
        self.found = {"settings": {}, "report": {}}
        self.queue = {}
        self.changed = threading.Condition()

    def follow(self):
        client = Client(10)
        status, listed = client.ask("GET", "/api/v1/configmaps")
        if status != 200:
            raise OSError(f"a list: {status}")
        with self.changed:
            self.found = {"settings": {}, "report": {}}
        for item in listed["items"]:
            self.note("ADDED", item)
        with open(READY, "w", encoding="utf-8"):
            pass
        client = Client(None)
        version = listed["metadata"]["resourceVersion"]
        answer = client.open("GET", f"/api/v1/configmaps?watch=true&resourceVersion={version}")
        while line := answer.readline():
            event = json.loads(line)
            if event["type"] == "ERROR":
                break
            self.note(event["type"], event["object"])

    def note(self, change, item):
        name, space = item["metadata"]["name"], item["metadata"]["namespace"]
        if name not in self.found:
            return
        with self.changed:
            if change == "DELETED":
                self.found[name].pop(space, None)
            else:
                self.found[name][space] = item
                self.queue[space] = True
                self.changed.notify()

    def next(self):
        with self.changed:
            self.changed.wait_for(lambda: self.queue or over.is_set(), RETRY)
            return next(iter(self.queue), None)

    def take(self, space):
        """Its settings and its report, as they are known now."""
        with self.changed:
            self.queue.pop(space, None)
            return [self.found[name].get(space) for name in ("settings", "report")]


def reconcile(client, space, settings, report):
    number = (settings or {}).get("data", {}).get("number")
    if number is None or report is not None and report.get("data", {}).get("seen") == number:
        return
    data = {"data": {"seen": number, "reportedBy": POD}}
    path = f"/api/v1/namespaces/{space}/configmaps"
    if report is None:
        status, _ = client.ask("POST", path, {"metadata": {"name": "report"}, **data})
    else:
        # With labels that others have set. If the version is not the latest, an event is still to come.
        status, _ = client.ask("PUT", f"{path}/report", {**report, **data})
    if status >= 500 or status == 429:
        raise OSError(f"a write: {status}")


def work(election, cache):
    client = Client(RENEW)
    while not over.is_set():
        space = cache.next()
        if space is None or not election.leads():
            over.wait(0 if space is None else 0.02)
            continue
        settings, report = cache.take(space)
        try:
            reconcile(client, space, settings, report)
        except (OSError, http.client.HTTPException):
            with cache.changed:
                cache.queue[space] = True
            over.wait(RETRY)


def again_and_again(job, pause):
    while not over.is_set():
        try:
            job()
        except (OSError, ValueError, http.client.HTTPException):
            pass  # it is tried again
        over.wait(pause)


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # in all threads
    election, cache = Election(), Cache()
    threads = [
        threading.Thread(target=work, args=(election, cache)),
        threading.Thread(target=again_and_again, args=(election.attempt, RETRY)),
    ]
    follower = threading.Thread(target=again_and_again, args=(cache.follow, RETRY), daemon=True)
    for thread in (*threads, follower):
        thread.start()
    signal.sigwait([signal.SIGTERM])
    over.set()
    for thread in threads:
        thread.join()
    try:
        election.give_back()
    except (OSError, http.client.HTTPException):
        pass  # it runs out


main()
