# SPDX-License-Identifier: Apache-2.0
"""What a reload costs localproxy, with a limit for each of LIMITS resources and as many open
watches, against the scripted API server."""

import json
import os
import time

import report
from build import HERE
from client import gets
from counters import Counters
from lab import BenchError
from proxies import write_kubeconfig
from reloading import (Informers, ReloadedProxy, before_nginx, document, fallbacks, percentile,
                       selector)
from server import DIFFERENCE_ITEMS, GROUP, POD, Upstream

LIMITS = 1000
COLLECTIONS = f"/apis/{GROUP}/v1/kinds-"
ELSEWHERE = "elsewhere.example"

# name: (what it says, how many of the watches it concerns, whether all watch the same resource)
SCENARIOS = {
    "none": ("concerns no open watch", 0, False),
    "one": ("concerns 1", 1, False),
    "shared": ("concerns all, of one resource", LIMITS, True),
    "all": ("concerns all, each of its own resource", LIMITS, False),
}

ROWS = {
    "loop": ("time in the loop", "ms", 2),
    "put": ("PUT to its answer", "ms", 2),
    "view": ("PUT to the last view that follows", "ms", 1),
    "touched": ("watches touched", "", 0),
    "requests": ("requests to the API server", "", 0),
    "cpu": ("CPU", "ms", 2),
    "user": ("instructions, user space", "k", 0),
    "kernel": ("instructions, kernel", "k", 0),
    "get_p50": ("GET of a pod meanwhile, p50", "us", 0),
    "get_p99": ("GET of a pod meanwhile, p99", "us", 0),
    "get_worst": ("the slowest GET of each reload", "ms", 2),
    "calm_p50": ("GET of a pod without reloads, p50", "us", 0),
    "calm_p99": ("GET of a pod without reloads, p99", "us", 0),
}

MEMORY_ROWS = {
    "rss_before": ("RSS with all watches open", "MB", 1),
    "rss_100": ("RSS after 100 reloads", "MB", 1),
    "rss_after": ("RSS after all of them", "MB", 1),
    "reloads": ("reloads", "", 0),
}


def rules(scenario, generation, count=LIMITS):
    """`count` limits; those that the scenario concerns are others with each generation."""
    _, concerned, shared = SCENARIOS[scenario]
    changed = 1 if shared else concerned
    limits = [(GROUP, f"kinds-{n}", selector(generation if n < changed else 0))
              for n in range(count if changed else count - 1)]
    if not changed:
        limits.append((ELSEWHERE, "kinds", selector(generation)))
    return document(generation, limits)


class Probe:
    """GETs at a steady pace while something else happens."""

    def __init__(self, lab, port):
        self.lab = lab
        self.process = lab.spawn("probe", [os.path.join(HERE, "probe.py"), str(port), POD],
                                 commands=True)

    def end(self):
        self.process.popen.stdin.close()
        samples = self.process.next_json(30)["samples"]
        self.lab.stop(self.process)
        return samples


class Subject:
    """A localproxy in one mode with its informers, in one scenario."""

    def __init__(self, bench, mode, scenario):
        self.bench = bench
        self.mode = mode
        self.scenario = scenario
        _, self.concerned, self.shared = SCENARIOS[scenario]
        self.generation = 1
        # Each reload is to be seen by itself: without an interval none waits for the one before.
        self.proxy = ReloadedProxy(bench.lab, bench.binary, bench.kubeconfig, mode,
                                   rules(scenario, 1),
                                   ["--cut-interval", "0", *before_nginx(bench.binary)])
        self.proxy.process.find_workers()
        path = COLLECTIONS + ("0" if self.shared else "{}")
        self.informers = Informers(bench.lab, bench.tools, self.proxy.port, path, LIMITS)
        gets(self.proxy.port, 1)

    def next_text(self):
        self.generation += 1
        return json.dumps(rules(self.scenario, self.generation))

    def reload(self):
        """One reload, to its end; what it took."""
        text = self.next_text()
        before = self.informers.report("clear")
        cpu = self.proxy.process.cpu_ns()
        begun, ended = self.proxy.put(text)
        after = self.informers.wait_changed(before, self.concerned, 2 * DIFFERENCE_ITEMS)
        followed = time.monotonic_ns()
        self.proxy.wait_quiet()
        rows = {"put": (ended - begun) / 1e6, "touched": after["touched"],
                "cpu": (self.proxy.process.cpu_ns() - cpu) / 1e6}
        if self.concerned:
            rows["view"] = (after["view_ns"] - begun) / 1e6
        return rows, (begun, max(ended, followed))

    def series(self, each):
        """Reloads until there are enough or the time is over."""
        deadline = time.monotonic() + self.bench.seconds
        done = 0
        while done < self.bench.reloads and (done < 3 or time.monotonic() < deadline):
            each()
            done += 1
        return done

    def stop(self):
        self.informers.stop()
        self.proxy.stop()


def costs(subject, add):
    """Alone, so that the CPU is that of the reloads."""
    subject.reload()
    before = subject.proxy.metrics()

    def one():
        for row, value in subject.reload()[0].items():
            add(row, value)

    name = "cmesh_proxy_upstream_requests_total"
    if subject.bench.countable:
        with Counters(subject.proxy.process.pids) as counters:
            done = subject.series(one)
            counted = counters.read()
        for row in ("user", "kernel"):
            add(row, counted[row] / 1e3 / done)
    else:
        done = subject.series(one)
    after = subject.proxy.metrics()
    add("requests", (after[name] - before[name]) / done)
    return fallbacks(after)


def latency(subject, add):
    """With an unrelated client beside."""
    probe = Probe(subject.bench.lab, subject.proxy.port)
    time.sleep(subject.bench.calm_seconds)
    calm = time.monotonic_ns()
    spans = []

    def one():
        spans.append(subject.reload()[1])
        add("loop", subject.proxy.loop_ns() / 1e6)

    subject.series(one)
    samples = probe.end()
    for percent in (50, 99):
        add(f"calm_p{percent}", percentile([ns for due, ns in samples if due < calm][10:], percent)
            / 1e3)
    during = [[ns for due, ns in samples if due + ns > begun and due < ended]
              for begun, ended in spans]
    everything = [ns for span in during for ns in span]
    if not everything:
        raise BenchError("no GET fell into a reload")
    for percent in (50, 99):
        add(f"get_p{percent}", percentile(everything, percent) / 1e3)
    for span in during:
        if span:
            add("get_worst", max(span) / 1e6)


def memory(subject, add, reloads):
    """As fast as a reload is answered, at most so many a second: many begin before the one before
    is over."""
    pace = 1 / subject.bench.memory_rate
    add("rss_before", subject.proxy.process.rss_kib() * 1024 / 1e6)
    for number in range(reloads):
        began = time.monotonic()
        subject.proxy.put(subject.next_text())
        time.sleep(max(0, began + pace - time.monotonic()))
        if number == 99:
            settle(subject)
            add("rss_100", subject.proxy.process.rss_kib() * 1024 / 1e6)
    settle(subject)
    add("rss_after", subject.proxy.process.rss_kib() * 1024 / 1e6)
    add("reloads", reloads)
    return fallbacks(subject.proxy.metrics())


def settle(subject):
    time.sleep(3)  # longer than cuts are spread over
    subject.informers.wait(lambda now: now["watching"] == LIMITS, "all informers watch again")
    subject.proxy.wait_quiet()


class CostBench:
    def __init__(self, arguments, lab, tools, binary, say):
        self.lab = lab
        self.tools = tools
        self.binary = binary
        self.say = say
        self.rounds = arguments.rounds or (1 if arguments.quick else 2)
        self.reloads = max(1, (arguments.reloads or (10 if arguments.quick else 100))
                           // self.rounds)
        self.seconds = arguments.seconds
        self.calm_seconds = 1
        self.memory_rate = 5
        self.memory_reloads = arguments.memory_reloads
        self.modes = arguments.modes
        self.scenarios = arguments.scenarios or list(SCENARIOS)
        self.countable = self.can_count()
        self.notes = []
        upstream = Upstream(lab, tools)
        self.kubeconfig = write_kubeconfig(lab, upstream, "reloaded")
        self.samples = {}  # scenario -> mode -> row -> values

    @staticmethod
    def can_count():
        try:
            with Counters([os.getpid()]):
                return True
        except OSError:
            return False

    def adder(self, scenario, mode):
        rows = self.samples.setdefault(scenario, {}).setdefault(mode, {})
        return lambda row, value: rows.setdefault(row, []).append(value)

    def note_fallbacks(self, scenario, mode, found):
        if mode == "seamless" and found:
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(found.items()))
            self.notes.append(f"{scenario}, seamless: watches that were cut after all: {reasons}")

    def one(self, scenario, mode):
        self.say(f"{scenario}, {mode}")
        add = self.adder(scenario, mode)
        subject = Subject(self, mode, scenario)
        self.note_fallbacks(scenario, mode, costs(subject, add))
        latency(subject, add)
        subject.stop()

    def one_memory(self, scenario, mode):
        self.say(f"memory: {scenario}, {mode}, {self.memory_reloads} reloads")
        subject = Subject(self, mode, scenario)
        found = memory(subject, self.adder(f"memory {scenario}", mode), self.memory_reloads)
        self.note_fallbacks(f"memory {scenario}", mode, found)
        subject.stop()

    def run(self):
        for number in range(self.rounds):
            modes = self.modes if number % 2 == 0 else self.modes[::-1]
            for scenario in self.scenarios:
                for mode in modes:
                    self.one(scenario, mode)
        if self.memory_reloads:
            for scenario in ("none", "shared"):
                if scenario in self.scenarios:
                    for mode in self.modes:
                        self.one_memory(scenario, mode)

    def print(self):
        for scenario, modes in self.samples.items():
            if scenario.startswith("memory "):
                what, rows = SCENARIOS[scenario.removeprefix("memory ")][0], MEMORY_ROWS
                print(f"\nMemory, a reload {what}, {self.memory_rate} a second\n")
            else:
                what, rows = SCENARIOS[scenario][0], ROWS
                count = len(next(iter(modes.values()))["put"])
                print(f"\nA reload {what} ({LIMITS} limits, {LIMITS} watches, {count} reloads)\n")
            print(report.table(report.summarise(modes), self.modes[0], rows))
        for note in self.notes:
            print(f"Note: {note}")

    def results(self):
        return {"samples": self.samples, "notes": self.notes,
                "summary": {scenario: report.summarise(modes)
                            for scenario, modes in self.samples.items()}}
