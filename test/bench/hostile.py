#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a hostile neighbour sends: one attack, until its standard input ends or the time is over. Then
it says what came of it, as a line of JSON. Only for `neighbours`, and only against loopback."""

import argparse
import collections
import contextlib
import ipaddress
import itertools
import json
import os
import socket
import ssl
import sys
import threading
import time

from control_plane import harness, wire

import mesh  # of the end-to-end tests; control_plane has named their folder

JSON = [("Content-Type", "application/json")]
MERGE = [("Content-Type", "application/merge-patch+json")]
REVIEW_MAX = 3 * 1024 * 1024
SENDERS = 4  # connections that send reviews
WAITERS = 12  # that announce a body and send none
SILENT = 600  # that say nothing after the handshake
MAPS = 40
SLOW_PODS = 64
SLOW_SECONDS = 2.8
EDIT_SECONDS = 6
LEASES = 2000
CONFIGS = 30
CONFIG_LIMITS = 2000
CONFIG_NAMESPACES = 200
MANY_CONFIGS = 150
MANY_NAMESPACES = 4
PAUSE = 0.05  # after a failure


class Attack:
    """Of a neighbour with addresses of its own: 127.66.N.x."""

    number = 0

    def __init__(self, arguments):
        self.arguments = arguments
        self.over = threading.Event()
        self.counts = collections.Counter()
        self.tls = trusting()
        self.lock = threading.Lock()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def connect(self, place):
        """To the webhooks, with the handshake done."""
        host, _, port = self.arguments.webhook.rpartition(":")
        source = f"127.66.{self.number}.{1 + place % 250}"
        sock = socket.create_connection((host, int(port)), 10, (source, 0))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self.tls.wrap_socket(sock)
        except BaseException:
            sock.close()
            raise

    def again(self, work, place):
        """`work` in a loop; what fails is counted."""
        while not self.over.is_set():
            try:
                work(place)
            except (OSError, wire.Cut, ValueError) as e:
                self.count(type(e).__name__)
                self.over.wait(PAUSE)

    def threads(self):
        """(function, how many of them); each is called with its place."""
        raise NotImplementedError

    def run(self):
        threads = [
            threading.Thread(target=self.again, args=(work, place), daemon=True)
            for work, count in self.threads()
            for place in range(count)
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self.over.set()


def trusting():
    """Who attacks does not ask whom."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# ---- without any credential, at the port of the webhooks ----


def review(plural, namespace, thing, operation="CREATE"):
    group, version = ("", "v1") if plural != "shardingconfigs" else (mesh.GROUP, "v1alpha1")
    request = {"uid": "x", "operation": operation, "namespace": namespace,
               "name": thing["metadata"]["name"], "object": thing,
               "resource": {"group": group, "version": version, "resource": plural}}  # fmt: skip
    whole = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(whole, separators=(",", ":")).encode()


def pod(namespace, annotations, containers):
    labels = {"shard": "shard-0", mesh.GROUP + "/enable-proxy": "true"}
    meta = {"name": "x", "namespace": namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}


def many_variables(namespace):
    """Each is asked for again and again."""
    variables = [{"name": f"V{n}"} for n in range(60000)]
    sync = {mesh.GROUP + "/env-sync": ",".join(["V1"] * 40000)}
    return "/mutate/pods", pod(namespace, sync, [{"name": "c", "env": variables}])


def many_containers(namespace):
    names = [f"c{n}" for n in range(20000)]
    annotations = {mesh.GROUP + "/operator-containers": ",".join(names)}
    return "/mutate/pods", pod(namespace, annotations, [{"name": n} for n in names])


def many_limits(namespace):
    """A wide limit of many keys meets many narrow ones."""
    keys = [{"key": f"k{n}", "operator": "Exists"} for n in range(1000)]
    wide = mesh.limit({"matchExpressions": keys}, ["*"], ["*"])
    narrow = [mesh.limit({"matchLabels": {"a": f"v{n}"}}, [f"r{n}"]) for n in range(7000)]
    thing = mesh.config("x", "x", wide, *narrow)
    thing["metadata"]["namespace"] = namespace
    return "/validate/shardingconfigs", thing


def many_groups(namespace):
    groups = [f"g{n}" for n in range(65000)]
    thing = mesh.config("x", "x", mesh.limit({"matchLabels": {"a": "b"}}, ["*"], groups))
    thing["metadata"]["namespace"] = namespace
    return "/validate/shardingconfigs", thing


def many_values(namespace):
    values = [f"value-{n}" for n in range(100000)]
    limits = [mesh.limit(mesh.is_in("k", *values), [f"r{n}"]) for n in range(1)]
    thing = mesh.config("x", "x", *limits)
    thing["metadata"]["namespace"] = namespace
    return "/validate/shardingconfigs", thing


def many_keys(namespace):
    meta = {"name": "x", "namespace": namespace, "labels": {f"k{n}": "v" for n in range(150000)}}
    return "/mutate/resources", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


class Reviews(Attack):
    """The largest and the most costly ones, one after the other."""

    number = 1

    def __init__(self, arguments):
        super().__init__(arguments)
        made = (many_variables, many_containers, many_limits, many_groups, many_values, many_keys)
        plurals = {"/mutate/pods": "pods", "/mutate/resources": "configmaps"}
        self.reviews = []
        for make in made:
            path, thing = make(arguments.namespace)
            plural = plurals.get(path, "shardingconfigs")
            self.reviews.append((path, review(plural, arguments.namespace, thing)))
        self.turn = itertools.count()

    def send(self, place):
        with self.connect(place) as sock:
            while not self.over.is_set():
                path, body = self.reviews[next(self.turn) % len(self.reviews)]
                head = (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n")  # fmt: skip
                sock.sendall(head.encode() + body)
                stream = wire.Stream(sock)
                status = wire.Head(stream.read_head_lines()).status
                self.count(f"status {status}")
                if status != 200:
                    return

    def threads(self):
        return [(self.send, SENDERS)]


class Announced(Attack):
    """Bodies that are announced and do not come."""

    number = 2

    def announce(self, place):
        with self.connect(place) as sock:
            sock.sendall(b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n{" % REVIEW_MAX)  # fmt: skip
            self.count("announced")
            sock.settimeout(1)
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    if not sock.recv(1000):
                        return
                sock.sendall(b" ")

    def threads(self):
        return [(self.announce, WAITERS)]


class Silent(Attack):
    """Connections that say nothing."""

    number = 3

    def hold(self, place):
        with self.connect(place % 3) as sock:
            self.count("held")
            sock.settimeout(1)
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    if not sock.recv(1000):
                        return

    def threads(self):
        return [(self.hold, SILENT)]


class Handshakes(Attack):
    """Nothing but those."""

    number = 4

    def shake(self, place):
        self.connect(place).close()
        self.count("done")

    def threads(self):
        return [(self.shake, SENDERS)]


# ---- with the rights of a tenant ----


class Tenant(Attack):
    """Somebody who may edit a namespace."""

    def __init__(self, arguments):
        super().__init__(arguments)
        self.cluster = harness.Cluster(arguments.cluster)
        self.namespace = arguments.tenant

    def send(self, method, path, thing=None, kind=None):
        body = None if thing is None else json.dumps(thing).encode()
        answer = self.cluster.fetch(path, method, kind or JSON, body)
        self.count(f"status {answer.status}")
        return answer


class Maps(Tenant):
    """ConfigMaps that look like rules, and are looked at again and again."""

    number = 5

    def documents(self):
        shard = {"namespace": self.namespace}
        keys = ",".join(f"k{n}" for n in range(1000))
        wide = {"apiGroups": ["*"], "resources": ["*"], "selector": keys}
        narrow = [{"apiGroups": [""], "resources": [f"r{n}"], "selector": "a"} for n in range(7000)]
        groups = [{"apiGroups": [f"g{n}" for n in range(65000)], "resources": ["*"], "selector": "a"}]
        for limits in ([wide, *narrow], groups):
            yield {"apiVersion": "cmesh/v1", "kind": "ShardRules", "shard": shard, "generation": 7,
                   "spec": {"limits": limits}}  # fmt: skip

    def change(self, place):
        documents = list(self.documents())
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        labels = {mesh.GROUP + "/rules": "true"}
        for n in range(place, MAPS, 2):
            name = f"hostile-{n}"
            document = documents[n % 2]
            document["shard"]["name"] = name
            text = json.dumps(document, separators=(",", ":"))
            meta = {"name": mesh.CONFIG_MAP + name, "labels": labels}
            self.send("POST", path, {"metadata": meta, "data": {"rules.json": text}})
        for n in itertools.count(place):
            if self.over.is_set():
                return
            change = {"metadata": {"annotations": {"turn": str(n)}}}
            target = f"{path}/{mesh.CONFIG_MAP}hostile-{n % MAPS}"
            self.send("PATCH", target, change, MERGE)

    def threads(self):
        return [(self.change, 2)]


class Slow(Tenant):
    """Pods that answer late, and rules that change so that they are asked."""

    number = 6

    def serve(self, listener):
        body = json.dumps({"program": "localproxy", "rules": {"inForce": False}}).encode()
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        while not self.over.is_set():
            with contextlib.suppress(OSError):
                sock, _ = listener.accept()
                threading.Thread(target=self.answer, args=(sock, answer), daemon=True).start()

    def answer(self, sock, answer):
        with sock, contextlib.suppress(OSError):
            while sock.recv(10000):
                self.count("asked")
                self.over.wait(SLOW_SECONDS)
                sock.sendall(answer)

    def make(self, listener):
        address = ipaddress.ip_address("127.67.0.1")
        port = listener.getsockname()[1]
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        ports = [{"name": "cmesh-admin", "containerPort": port}]
        containers = [{"name": "cmesh-localproxy", "image": "x", "ports": ports}]
        for n in range(SLOW_PODS):
            meta = {"name": f"slow-{n}", "labels": {"shard": "slow"}}
            meta["annotations"] = {mesh.INJECTED: "slow"}
            self.send("POST", pods, {"metadata": meta, "spec": {"containers": containers}})
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                      "podIP": str(address + n), "podIPs": [{"ip": str(address + n)}]}  # fmt: skip
            self.send("PATCH", f"{pods}/slow-{n}/status", {"status": status}, MERGE)

    def change(self, _):
        configs = f"{mesh.API}/namespaces/{self.namespace}/shardingconfigs"
        with socket.create_server(("0.0.0.0", 0), backlog=512) as listener:
            listener.settimeout(1)
            server = threading.Thread(target=self.serve, args=(listener,), daemon=True)
            server.start()
            self.make(listener)
            thing = mesh.config("slow", "slow", mesh.limit(mesh.is_in("a", "0")))
            self.send("POST", configs, thing)
            for n in itertools.count(1):
                if self.over.wait(EDIT_SECONDS):
                    server.join()
                    return
                spec = {"limits": [mesh.limit(mesh.is_in("a", str(n)))]}
                self.send("PATCH", f"{configs}/slow", {"spec": spec}, MERGE)

    def threads(self):
        return [(self.change, 1)]


class Leases(Tenant):
    """Leases by which pods seem to tell, of pods that are not there."""

    number = 7

    def change(self, place):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        labels = {"app.kubernetes.io/part-of": "cmesh", "app.kubernetes.io/component": "localproxy"}
        told = {"cmesh.kusionstack.io/status": json.dumps({"program": "localproxy"})}
        for n in range(place, LEASES, 2):
            if self.over.is_set():
                return
            meta = {"name": f"cmesh-none-{n}", "labels": labels, "annotations": told}
            self.send("POST", path, {"metadata": meta, "spec": {"holderIdentity": "x"}})
        for n in itertools.count(place):
            if self.over.is_set():
                return
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
            change = {"spec": {"renewTime": now}}
            self.send("PATCH", f"{path}/cmesh-none-{n % LEASES}", change, MERGE)

    def threads(self):
        return [(self.change, 2)]


class Configs(Tenant):
    """Many large shards of one operator: by one label all have each namespace, and another label shows
    only after all their limits were compared that no two share an object."""

    number = 8

    def limits(self, part):
        def one(n):
            labels = {"part": part, f"k{n}": "x"}
            exists = [{"key": mesh.GROUP + "/namespace", "operator": "Exists"}]
            return mesh.limit({"matchLabels": labels, "matchExpressions": exists}, ["r"], [f"g{n}"])

        return [one(n) for n in range(CONFIG_LIMITS)]

    def change(self, place):
        configs = f"{mesh.API}/namespaces/{self.namespace}/shardingconfigs"
        for n in range(place, CONFIG_NAMESPACES, 2):
            if self.over.is_set():
                return
            name = f"{self.namespace}-{n}"
            self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for n in range(place, CONFIGS, 2):
            if self.over.is_set():
                return
            thing = mesh.config(f"large-{n}", f"large-{n}", *self.limits(f"p{n}"))
            self.send("POST", configs, thing)
        for n in itertools.count(place):
            if self.over.is_set():
                return
            name = f"large-{n % CONFIGS}"
            spec = {"limits": self.limits(f"p{n % CONFIGS}-{n}")}
            self.send("PATCH", f"{configs}/{name}", {"spec": spec}, MERGE)

    def threads(self):
        return [(self.change, 2)]


class Sums(Configs):
    """As many large shards as there is room for in some namespaces, each of an operator of its own, so
    that none is compared with another, and nobody is in a hurry."""

    number = 9

    def change(self, place):
        for number in range(place, MANY_NAMESPACES, 2):
            name = f"{self.namespace}-sum-{number}"
            self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for n in range(place, MANY_CONFIGS, 2):
            if self.over.is_set():
                return
            namespace = f"{self.namespace}-sum-{n % MANY_NAMESPACES}"
            thing = mesh.config(f"sum-{n}", f"sum-{n}", *self.limits(f"p{n}"))
            thing["spec"]["controller"] = {"leaderElectionName": f"operator-{n}"}
            self.send("POST", f"{mesh.API}/namespaces/{namespace}/shardingconfigs", thing)
        self.over.wait()


ATTACKS = {
    "reviews": Reviews,
    "announced": Announced,
    "silent": Silent,
    "handshakes": Handshakes,
    "maps": Maps,
    "slow": Slow,
    "leases": Leases,
    "configs": Configs,
    "sums": Sums,
}


def come_last():
    """It is on another machine: what it takes here is no part of the attack. Where the kernel shares
    time among sessions before it does among processes, a session has a niceness of its own."""
    os.nice(19)
    with contextlib.suppress(FileNotFoundError), open("/proc/self/autogroup", "w", encoding="ascii") as f:
        f.write("19")


def main():
    p = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    p.add_argument("attack", choices=ATTACKS)
    p.add_argument("--webhook", required=True, help="ADDR:PORT of the manager")
    p.add_argument("--cluster", required=True, help="the folder of the control plane")
    p.add_argument("--namespace", required=True, help="where shards are")
    p.add_argument("--tenant", required=True, help="the namespace of the tenant")
    come_last()
    attack = ATTACKS[(arguments := p.parse_args()).attack](arguments)
    attack.run()
    with attack.lock:
        print(json.dumps(attack.counts), flush=True)
    os._exit(0)  # whatever its threads wait for


if __name__ == "__main__":
    main()
