# SPDX-License-Identifier: Apache-2.0
"""How soon the caches of real informers are right after a reload, and what it costs them.

Each client has a localproxy of its own, as an operator has, and looks at each resource once."""

import itertools
import json
import time

import report
from control_plane import ControlPlane, real_clients, resources
from lab import BenchError
from reloading import NAMESPACE_LABEL, ReloadedProxy, document, fallbacks, percentile

LEASES = resources.Resource("coordination.k8s.io", "v1", "leases")
KINDS = [resources.CONFIG_MAPS, resources.SECRETS, resources.PODS, LEASES]
NAMESPACES = 8
SHOWN = 4
OBJECTS = 20  # of each kind, in each namespace
SIZE = 300
PER_ROUND = 4
RIGHT_LIMIT = 120
AFTER_SECONDS = 0.5  # from one reload's right caches to the next reload
WATCHES = {
    "client-go": ["typed:configmaps", "json:secrets", "metadata:pods",
                  f"dynamic:{resources.name_of(LEASES)}"],
    "JavaScript": ["configmaps", "secrets"],
    "Python": ["endless:configmaps", "limited:secrets"],
}


def rows_of(client, watches):
    return {
        f"{client} right": (f"{client}: PUT to a right cache", "ms", 0),
        f"{client} p99": (f"{client}: p99 of it", "ms", 0),
        **{f"{client} {n}": (f"{client}: {n}. reload since its start", "ms", 0)
           for n in range(1, PER_ROUND + 1)},
        f"{client} updates": (f"{client}: UPDATE calls of its {watches} handlers", "", 1),
        f"{client} lists": (f"{client}: lists", "", 2),
    }


ROWS = {
    "put": ("PUT to its answer", "ms", 1),
    **{row: text for client, watches in WATCHES.items()
       for row, text in rows_of(client, len(watches)).items()},
    "list": ("API server: lists of all clients", "", 1),
    "own": ("API server: of them localproxy's own", "", 1),
    "watch": ("API server: watches begun", "", 1),
}


class View:
    """What the handlers of one watch of one client were told."""

    def __init__(self, client, watch):
        self.client = client
        self.watch = watch
        self.keys = set()
        self.read = 0
        self.right_at = None  # ns of the wall clock
        self.counts = {"update": 0, "list": 0}

    def follow(self, expected):
        """Reads what is new."""
        events = self.client.events
        while self.read < len(events):
            event = events[self.read]
            self.read += 1
            if event.watch != self.watch:
                continue
            if event.kind in self.counts:
                self.counts[event.kind] += 1
            elif event.kind in ("add", "delete"):
                change = self.keys.add if event.kind == "add" else self.keys.discard
                change(event.key)
                self.right_at = event.at if self.keys == expected else None

    def take_counts(self):
        counts, self.counts = self.counts, {"update": 0, "list": 0}
        return counts


class Round:
    """New clients, and some reloads in a row."""

    def __init__(self, bench, mode):
        self.bench = bench
        self.generation = 0
        rules = self.next_rules()
        self.proxies = {
            name: ReloadedProxy(bench.lab, bench.binary, bench.plane.kubeconfig, mode, rules)
            for name in bench.clients
        }
        self.clients = [self.start(name, f"http://127.0.0.1:{proxy.port}")
                        for name, proxy in self.proxies.items()]
        real_clients.wait_synced(self.clients)
        self.views = [View(client, watch) for client in self.clients for watch in client.watches]
        self.wait_right()

    def start(self, name, url):
        if name == "client-go":
            return real_clients.go_informer(name, url, WATCHES[name])
        if name == "JavaScript":
            return real_clients.js_informer(name, url, WATCHES[name], self.bench.lab.folder)
        return real_clients.python_informer(name, url, WATCHES[name])

    def next_rules(self):
        self.generation += 1
        names = self.bench.namespaces
        self.shown = sorted(names[(self.generation + n) % NAMESPACES] for n in range(SHOWN))
        text = f"{NAMESPACE_LABEL} in ({','.join(self.shown)})"
        return document(self.generation, [(kind.group, kind.plural, text) for kind in KINDS])

    def wait_right(self):
        """Until every cache holds what the rules show, and nothing else."""
        expected = {f"{namespace}/thing-{n}" for namespace in self.shown for n in range(OBJECTS)}
        deadline = time.monotonic() + RIGHT_LIMIT
        while True:
            for view in self.views:
                view.follow(expected)
            wrong = [view for view in self.views if view.keys != expected]
            if not wrong:
                time.sleep(AFTER_SECONDS)  # for what comes late
                return
            if time.monotonic() > deadline:
                view = wrong[0]
                raise BenchError(f"{view.client.name} {view.watch} is wrong after {RIGHT_LIMIT} s: "
                                 f"{view.client.events[-3:]}")
            time.sleep(0.01)

    def reload(self, number, add):
        text = json.dumps(self.next_rules())
        for view in self.views:
            view.take_counts()
            view.right_at = None
        mark = self.bench.plane.audit_mark()
        begun = {}
        for name, proxy in self.proxies.items():
            begun[name] = time.time_ns()
            put, answered = proxy.put(text)
            add("put", (answered - put) / 1e6)
        self.wait_right()
        for row, value in self.bench.plane.requests(mark, [k.plural for k in KINDS]).items():
            add(row, value)
        for client, views in itertools.groupby(self.views, lambda view: view.client.name):
            counts = []
            for view in views:
                right = (view.right_at - begun[client]) / 1e6
                add(f"{client} right", right)
                add(f"{client} {number}", right)
                counts.append(view.take_counts())
            add(f"{client} updates", sum(count["update"] for count in counts))
            add(f"{client} lists", sum(count["list"] for count in counts))

    def stop(self):
        for client in self.clients:
            client.close()
        found = {}
        for proxy in self.proxies.values():
            for reason, count in fallbacks(proxy.metrics()).items():
                found[reason] = found.get(reason, 0) + count
            proxy.stop()
        return found


class ClientsBench:
    # pylint: disable-next=too-many-arguments
    def __init__(self, arguments, lab, tools, binary, say):
        del tools
        self.lab = lab
        self.binary = binary
        self.say = say
        reloads = arguments.reloads or (PER_ROUND if arguments.quick else 100)
        self.rounds = arguments.rounds or max(1, reloads // PER_ROUND)
        self.modes = arguments.modes
        self.samples = {mode: {} for mode in self.modes}
        self.fallbacks = {}
        self.plane = None
        self.namespaces = []
        self.clients = self.find_clients()

    def find_clients(self):
        have = {
            "client-go": real_clients.go_folder()[0] is not None,
            "JavaScript": real_clients.install_js_client() is not None,
            "Python": real_clients.have_python_client(),
        }
        for client, there in have.items():
            if not there:
                self.say(f"{client} is skipped: it is not installed")
        found = [client for client, there in have.items() if there]
        if not found:
            raise BenchError("no client library")
        return found

    def run(self):
        with ControlPlane() as self.plane:
            self.namespaces = self.plane.fill(KINDS, NAMESPACES, OBJECTS, SIZE)
            for number in range(self.rounds):
                for mode in self.modes if number % 2 == 0 else self.modes[::-1]:
                    self.one_round(number, mode)

    def one_round(self, number, mode):
        began = time.monotonic()
        rows = self.samples[mode]
        this = Round(self, mode)
        for n in range(1, PER_ROUND + 1):
            this.reload(n, lambda row, value: rows.setdefault(row, []).append(value))
        for reason, count in this.stop().items():
            if mode == "seamless":
                self.fallbacks[reason] = self.fallbacks.get(reason, 0) + count
        self.say(f"round {number + 1} of {self.rounds}, {mode}: {time.monotonic() - began:.0f} s")

    def summary(self):
        """p99 stands in a row of its own, as one figure."""
        summary = report.summarise(self.samples)
        for mode, rows in self.samples.items():
            for client in self.clients:
                value = percentile(rows[f"{client} right"], 99)
                summary[mode][f"{client} p99"] = {"median": value, "min": value, "max": value,
                                                  "n": 1}
        return summary

    def print(self):
        count = len(self.samples[self.modes[0]]["list"])
        print(f"\nA reload that concerns every watch of every client; each shows {SHOWN * OBJECTS} "
              f"objects, loses {OBJECTS} and gains {OBJECTS} ({count} reloads, {PER_ROUND} in a row "
              f"with the same clients)\n")
        print(report.table(self.summary(), self.modes[0], ROWS))
        if self.fallbacks:
            print(f"Note: seamless: watches that were cut after all: {self.fallbacks}")

    def results(self):
        return {"samples": self.samples, "summary": self.summary(), "fallbacks": self.fallbacks}
