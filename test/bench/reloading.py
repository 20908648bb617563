# SPDX-License-Identifier: Apache-2.0
"""A localproxy whose rules are changed while it runs, and the informers in front of it."""

import http.client
import json
import re
import socket
import time

from lab import BenchError
from proxies import LocalproxyH1, has_in_help, no_token

NAMESPACES = 30
WINDOW = 20
NAMESPACE_LABEL = "ctrlmesh.kusionstack.io/namespace"
SETTLE_LIMIT = 60
STARTED_LIMIT = 30


def selector(step):
    """Of a shard with WINDOW namespaces: from one step to the next it loses one and gains one."""
    names = sorted(f"team-{(step + n) % NAMESPACES:02d}" for n in range(WINDOW))
    return f"{NAMESPACE_LABEL} in ({','.join(names)})"


def document(generation, limits):
    """`limits`: [(group, resource, selector)]"""
    return {
        "apiVersion": "cmesh/v1", "kind": "ShardRules", "generation": generation,
        "shard": {"namespace": "operator-demo", "name": "sharding-demo"},
        "spec": {"limits": [{"apiGroups": [group], "resources": [resource], "selector": text}
                            for group, resource, text in limits]}}


def before_nginx(binary):
    """Flags for a localproxy whose server is nginx: of HTTP/2 streams that begin together it keeps the
    heads until something else is written, so that quiet watches would not open."""
    return list(LocalproxyH1.flags) if has_in_help(binary, "--upstream-protocol=") else []


class ControlConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ReloadedProxy:
    """A process of localproxy with a control socket; `kubeconfig` is a path."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, lab, binary, kubeconfig, mode, rules, flags=(), wrap=()):
        self.port = lab.free_port()
        folder = f"reloaded-{self.port}"
        self.control_path = lab.path(folder, "control")
        self.lab = lab
        ready = lab.path(folder, "ready.json")
        self.process = lab.spawn("localproxy", [
            *wrap, binary, "--kubeconfig", kubeconfig,
            "--rules", lab.write(f"{folder}/rules.json", json.dumps(rules)),
            "--control", self.control_path, "--reload-mode", mode,
            "--listen", f"127.0.0.1:{self.port}", "--admin", "127.0.0.1:0",
            "--log-level", "error", "--ready-file", ready, *no_token(binary), *flags],
            role="proxy")
        self.admin_port = self.wait_ready(ready)
        self.control = ControlConnection(self.control_path)

    def wait_ready(self, path):
        deadline = time.monotonic() + STARTED_LIMIT
        while time.monotonic() < deadline:
            self.process.check()
            try:
                with open(path, encoding="utf-8") as f:
                    return int(json.load(f)["admin"].rpartition(":")[2])
            except (OSError, ValueError):
                time.sleep(0.01)
        raise BenchError(f"localproxy does not listen: {self.process.log_tail()}")

    def put(self, text):
        """Puts rules in force; nanoseconds (monotonic) when it began, and of its answer."""
        begun = time.monotonic_ns()
        self.control.request("PUT", "/v1/rules", text, {"Content-Type": "application/json"})
        answer = self.control.getresponse()
        body = answer.read()
        ended = time.monotonic_ns()
        if answer.status != 200:
            raise BenchError(f"PUT /v1/rules was answered {answer.status}: {body[:200]!r}")
        return begun, ended

    def metrics(self):
        """name{labels} -> value."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=60)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        samples = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def loop_ns(self):
        """What the last reload took of the loop's time."""
        return self.metrics()["cmesh_proxy_reload_duration_seconds"] * 1e9

    def wait_quiet(self, limit=10):
        """Until it does nothing any more."""
        deadline = time.monotonic() + limit
        last, still = self.process.cpu_ns(), 0
        while still < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            now = self.process.cpu_ns()
            still = still + 1 if now - last < 200_000 else 0
            last = now

    def stop(self):
        self.control.close()
        self.lab.stop(self.process)


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def fallbacks(metrics):
    """reason -> how many watches were cut for it although the mode is seamless."""
    found = {}
    for name, value in metrics.items():
        match = re.fullmatch(r'cmesh_proxy_fallbacks_total\{reason="(\w+)"\}', name)
        if match and value:
            found[match[1]] = int(value)
    return found


class Informers:
    """The program informer_load."""

    def __init__(self, lab, tools, port, path, count):
        self.lab = lab
        self.count = count
        self.process = lab.spawn("informer_load", [
            f"{tools}/informer_load", "--connect", f"127.0.0.1:{port}", "--path", path,
            "--informers", str(count)], commands=True)
        self.wait(lambda now: now["watching"] == count, "all informers watch")

    def report(self, command=""):
        try:
            self.process.popen.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            self.process.popen.wait(5)
            raise BenchError(f"informer_load ended: {self.process.log_tail()}") from None
        return self.process.next_json(30)

    def wait(self, condition, what):
        """The first report of which `condition` is true."""
        deadline = time.monotonic() + SETTLE_LIMIT
        while not condition(now := self.report()):
            if time.monotonic() > deadline:
                raise BenchError(f"not within {SETTLE_LIMIT} s: {what}: {now}")
            time.sleep(0.005)
        return now

    def wait_changed(self, before, count, changes):
        """Until `count` views followed a change, be it by so many ADDED and DELETED events or by a
        new list, and all watch again."""
        def followed(now):
            events = sum(now[name] - before[name] for name in ("added", "deleted"))
            done = events / changes + now["lists"] - before["lists"]
            return done >= count and now["watching"] == self.count
        return self.wait(followed, f"{count} informers followed the rules")

    def stop(self):
        self.lab.stop(self.process)
