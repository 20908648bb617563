# SPDX-License-Identifier: Apache-2.0
"""What a reload asks of a real API server when it concerns many open watches of one resource."""

import json
import time

import report
from control_plane import ControlPlane, resources
from reloading import NAMESPACE_LABEL, Informers, ReloadedProxy, document, fallbacks

WATCHES = 1000
NAMESPACES = 10
SHOWN = 5
OBJECTS = 30  # in each namespace
SIZE = 700    # of their text; with all that the API server adds, each is about 1.3 KB of JSON
IDLE_SECONDS = 3
AFTER_SECONDS = 1  # how long what a reload causes may go on behind the last view

ROWS = {
    "view": ("PUT to the last view that follows", "ms", 0),
    "touched": ("watches touched", "", 0),
    "list": ("lists", "", 0),
    "own": ("of them localproxy's own", "", 0),
    "watch": ("watches begun", "", 0),
    "bytes": ("bytes of lists to the clients", "MB", 1),
    "spliced": ("events to the clients", "", 0),
    "apiserver": ("CPU of kube-apiserver", "s", 2),
    "etcd": ("CPU of etcd", "s", 2),
    "cpu": ("CPU of localproxy", "s", 2),
}


class Subject:
    """A localproxy in one mode, and its informers."""

    def __init__(self, bench, mode):
        self.bench = bench
        self.generation = 1
        self.proxy = ReloadedProxy(bench.lab, bench.binary, bench.plane.kubeconfig, mode,
                                   self.rules(), ["--cut-interval", "0"])
        self.informers = Informers(bench.lab, bench.tools, self.proxy.port,
                                   resources.path(resources.CONFIG_MAPS), WATCHES)

    def rules(self):
        names = self.bench.namespaces
        shown = sorted(names[(self.generation + n) % NAMESPACES] for n in range(SHOWN))
        return document(self.generation,
                        [("", "configmaps", f"{NAMESPACE_LABEL} in ({','.join(shown)})")])

    def reload(self):
        """One reload to its end: {row: value}."""
        plane = self.bench.plane
        self.generation += 1
        text = json.dumps(self.rules())
        before = self.informers.report("clear")
        mark, cpu = plane.audit_mark(), self.proxy.process.cpu_ns()
        servers = {name: plane.cpu_seconds(name) for name in self.bench.idle}
        begun, _ = self.proxy.put(text)
        after = self.informers.wait_changed(before, WATCHES, 2 * OBJECTS)
        self.proxy.wait_quiet()
        time.sleep(AFTER_SECONDS)
        seconds = (time.monotonic_ns() - begun) / 1e9
        rows = {"view": (after["view_ns"] - begun) / 1e6, "touched": after["touched"],
                "bytes": (after["list_bytes"] - before["list_bytes"]) / 1e6,
                "spliced": sum(after[n] - before[n] for n in ("added", "deleted", "bookmarks")),
                "cpu": (self.proxy.process.cpu_ns() - cpu) / 1e9}
        for name, label in (("kube-apiserver", "apiserver"), ("etcd", "etcd")):
            spent = plane.cpu_seconds(name) - servers[name]
            rows[label] = max(0, spent - self.bench.idle[name] * seconds)
        return rows | plane.requests(mark, {"configmaps"})

    def stop(self):
        self.informers.stop()
        self.proxy.stop()


class ServerBench:
    # pylint: disable-next=too-many-arguments
    def __init__(self, arguments, lab, tools, binary, say):
        self.lab = lab
        self.tools = tools
        self.binary = binary
        self.say = say
        self.rounds = arguments.rounds or (1 if arguments.quick else 3)
        self.reloads = max(1, (arguments.reloads or (2 if arguments.quick else 15)) // self.rounds)
        self.modes = arguments.modes
        self.samples = {mode: {} for mode in self.modes}
        self.notes = []
        self.plane = None
        self.namespaces = []
        self.idle = {"kube-apiserver": 0.0, "etcd": 0.0}  # CPU seconds a second

    def measure_idle(self):
        """With all watches open and nothing to do."""
        before = {name: self.plane.cpu_seconds(name) for name in self.idle}
        time.sleep(IDLE_SECONDS)
        self.idle = {name: (self.plane.cpu_seconds(name) - before[name]) / IDLE_SECONDS
                     for name in self.idle}

    def series(self, mode):
        self.say(f"{mode}: {WATCHES} watches")
        subject = Subject(self, mode)
        subject.reload()
        self.measure_idle()
        for _ in range(self.reloads):
            for row, value in subject.reload().items():
                self.samples[mode].setdefault(row, []).append(value)
        found = fallbacks(subject.proxy.metrics())
        if found and mode == "seamless":
            self.notes.append("seamless: watches that were cut after all: " + str(found))
        subject.stop()

    def run(self):
        with ControlPlane() as self.plane:
            self.namespaces = self.plane.fill([resources.CONFIG_MAPS], NAMESPACES, OBJECTS, SIZE)
            for number in range(self.rounds):
                for mode in self.modes if number % 2 == 0 else self.modes[::-1]:
                    self.series(mode)

    def print(self):
        print(f"\nOne reload that concerns {WATCHES} open watches of one resource; each shows "
              f"{SHOWN * OBJECTS} objects, loses {OBJECTS} and gains {OBJECTS} "
              f"({len(self.samples[self.modes[0]]['view'])} reloads)\n")
        print(report.table(report.summarise(self.samples), self.modes[0], ROWS))
        for note in self.notes:
            print(f"Note: {note}")

    def results(self):
        return {"samples": self.samples, "notes": self.notes,
                "summary": report.summarise(self.samples)}
