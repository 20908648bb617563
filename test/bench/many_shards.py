# SPDX-License-Identifier: Apache-2.0
"""Many ShardingConfigs at a real API server, their pods as objects, and sidecars that say that all is
well."""

import asyncio
import json
import os
import sys
import threading
import time

from control_plane import each, harness
from lab import BenchError

import mesh  # of the end-to-end tests; control_plane has named their folder

__all__ = ["JSON", "MERGE", "Sidecars", "World", "cpu_s", "each", "install", "limits", "memory_mb",
           "print_table", "say"]

PREFIX = "shards-bench-"
TIMEOUT = 1200
VALUES = 20  # in each limit
OTHER_SIZE = 4096  # bytes of an annotation of each pod elsewhere
JSON = [("Content-Type", "application/json")]
MERGE = [("Content-Type", "application/merge-patch+json")]


def say(text):
    print(text, file=sys.stderr, flush=True)


def cpu_s(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


def memory_mb(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        line = next(line for line in f if line.startswith(field + ":"))
    return int(line.split()[1]) / 1024


def print_table(results, rows):
    """`rows`: key of the figures -> text, unit, digits."""
    print(f"{'':34}" + "".join(f"{name:>14}" for name in results))
    for key, (text, unit, digits) in rows.items():
        cells = (f"{figures[key]:.{digits}f} {unit}".strip() for figures in results.values())
        print(f"{text:34}" + "".join(f"{cell:>14}" for cell in cells))


def install(kubectl, callback):
    callback(kubectl.run, "delete", "-f", mesh.CRD, "--ignore-not-found")
    kubectl("apply", "-f", mesh.CRD)
    name = "crd/shardingconfigs." + mesh.GROUP
    kubectl("wait", "--for=condition=Established", name, "--timeout=30s")


def limits(number, edition):
    values = (f"ns-{number}-{edition}-{i}" for i in range(VALUES))
    return [mesh.limit(mesh.is_in(harness.NAMESPACE_LABEL, *values), ["pods", "services"], ["*"])]


class Sidecars:
    """The admin servers of all pods in one: each has an address of its own, and enforces what stands
    in its shard's ConfigMap as soon as it does."""

    def __init__(self, cluster):
        self.rules = {}  # (namespace, ConfigMap) -> what /status says of it
        self.pods = {}  # address -> the same key
        self.port = None
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.started.wait()
        self.watched = mesh.Watched(cluster, "/api/v1/configmaps", self.note)

    def run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, "0.0.0.0", 0))
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        self.loop.run_forever()
        server.close()
        connections = asyncio.all_tasks(self.loop)
        for connection in connections:
            connection.cancel()
        self.loop.run_until_complete(asyncio.gather(*connections, return_exceptions=True))

    def note(self, _, config_map):
        rules = mesh.rules_of(config_map)
        if rules is not None and "checksum" in rules:  # it is the manager's
            meta = config_map["metadata"]
            self.rules[meta["namespace"], meta["name"]] = {
                "inForce": True, "shard": rules["shard"], "generation": rules["generation"],
                "checksum": rules["checksum"], "since": int(time.time()), "settled": True,
            }  # fmt: skip

    async def serve(self, reader, writer):
        key = self.pods.get(writer.get_extra_info("sockname")[0])
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                rules = self.rules.get(key, {"inForce": False})
                body = json.dumps({"program": "localproxy", "rules": rules}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    def end(self):
        self.watched.end()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class World:
    """The ShardingConfigs, and pods of which there are the objects, and sidecars that say that all
    is well."""

    def __init__(self, arguments, control_plane):
        self.cluster = control_plane.cluster
        self.arguments = arguments
        self.namespaces = [f"{PREFIX}{os.getpid()}-{n}" for n in range(arguments.namespaces)]
        self.elsewhere = f"{PREFIX}{os.getpid()}-elsewhere"
        self.make_namespaces(control_plane.cleanups.callback)
        self.editions = [0] * arguments.configs
        self.sidecars = Sidecars(self.cluster)
        control_plane.cleanups.callback(self.sidecars.end)

    def make_namespaces(self, callback):
        """All of them, and then what the controllers make in each."""
        names = [*self.namespaces, self.elsewhere]
        for name in names:
            self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
            callback(self.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        for name in names:
            harness.wait_for_pods(self.cluster, name)

    def place(self, number):
        return self.namespaces[number % len(self.namespaces)], f"shard-{number}"

    def path(self, number, collection=False):
        namespace, name = self.place(number)
        path = f"{mesh.API}/namespaces/{namespace}/shardingconfigs"
        return path if collection else f"{path}/{name}"

    def configs(self):
        for n in range(self.arguments.configs):
            _, name = self.place(n)
            thing = mesh.config(name, name, *limits(n, 0))
            yield "POST", self.path(n, collection=True), JSON, thing

    def pods(self):
        admin = [{"name": "cmesh-admin", "containerPort": self.sidecars.port}]
        containers = [
            {"name": "operator", "image": "operator"},
            {"name": "cmesh-localproxy", "image": "cmesh", "ports": admin},
        ]
        for n in range(self.arguments.configs):
            namespace, name = self.place(n)
            for i in range(self.arguments.pods):
                labels, annotations = {"shard": name}, {mesh.INJECTED: name}
                meta = {"name": f"{name}-{i}", "labels": labels, "annotations": annotations}
                thing = {"metadata": meta, "spec": {"containers": containers}}
                yield "POST", f"/api/v1/namespaces/{namespace}/pods", JSON, thing

    def pod_statuses(self):
        for n in range(self.arguments.configs):
            namespace, name = self.place(n)
            for i in range(self.arguments.pods):
                place = n * self.arguments.pods + i
                address = f"127.99.{place // 250}.{1 + place % 250}"
                self.sidecars.pods[address] = namespace, mesh.CONFIG_MAP + name
                ready = [{"type": "Ready", "status": "True"}]
                status = {"phase": "Running", "conditions": ready, "podIP": address}
                status["podIPs"] = [{"ip": address}]
                path = f"/api/v1/namespaces/{namespace}/pods/{name}-{i}/status"
                yield "PATCH", path, MERGE, {"status": status}

    def others(self):
        """Pods that are nobody's here."""
        containers = [{"name": "other", "image": "other"}]
        for n in range(self.arguments.others):
            meta = {"name": f"other-{n}", "annotations": {"text": "x" * OTHER_SIZE}}
            thing = {"metadata": meta, "spec": {"containers": containers}}
            yield "POST", f"/api/v1/namespaces/{self.elsewhere}/pods", JSON, thing

    def other_changes(self):
        for n in range(self.arguments.others):
            change = {"metadata": {"annotations": {"edition": "1"}}}
            yield "PATCH", f"/api/v1/namespaces/{self.elsewhere}/pods/other-{n}", MERGE, change

    def edit(self, number):
        self.editions[number] += 1
        change = {"spec": {"limits": limits(number, self.editions[number])}}
        return "PATCH", self.path(number), MERGE, change

    def enforced(self):
        """How many statuses say that the spec as it is now is enforced on all pods."""
        count, pods = 0, self.arguments.pods
        for thing in self.cluster.json(f"{mesh.API}/shardingconfigs")["items"]:
            c = mesh.condition(thing, "Enforced")
            observed = c.get("observedGeneration") == thing["metadata"]["generation"]
            whole = thing.get("status", {}).get("enforced") == f"{pods}/{pods}"
            count += c.get("status") == "True" and observed and whole
        return count

    def wait_enforced(self):
        began = time.monotonic()
        while self.enforced() < self.arguments.configs:
            if time.monotonic() - began > TIMEOUT:
                raise BenchError("not all of them are enforced")
            time.sleep(0.5)
