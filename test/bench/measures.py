# SPDX-License-Identifier: Apache-2.0
"""What is measured: the rows of the table, and how each figure is taken.

A measure gets the bench (its lab, upstream, tools and durations) and a running proxy, and returns
{row: value}. CPU is that of the proxy's processes alone, sampled around the load.
"""

import time
from functools import partial

from client import GZIP, Fresh, Kept, first_answer_ms, gets, trust, warm
from counters import Counters
from lab import BenchError
from server import LARGE_LIST, LARGE_LIST_ITEMS, LIST, POD, watch_target

WATCHES = 100
EVENTS_PER_WATCH = 50
MANY_WATCHES = 1000
WARM_CONNECTIONS = 32

# row: (what it says, unit, decimals, what the project aims at)
ROWS = {
    "get1_cpu": ("CPU per small GET, 1 connection", "us", 1, "nginx"),
    "get1_rate": ("requests, 1 connection", "1/s", 0, ""),
    "get32_cpu": ("CPU per small GET, 32 connections", "us", 1, "nginx"),
    "get32_rate": ("requests, 32 connections", "1/s", 0, ""),
    "event_cpu": ("CPU per watch event", "us", 1, "12"),
    "get1_instructions": ("instructions per small GET, 1 connection", "k", 1, "nginx"),
    "get32_instructions": ("instructions per small GET, 32 connections", "k", 1, "nginx"),
    "event_instructions": ("instructions per watch event", "k", 1, ""),
    "get1_calls": ("system calls per small GET, 1 connection", "", 2, ""),
    "get32_calls": ("system calls per small GET, 32 connections", "", 2, ""),
    "event_calls": ("system calls per watch event", "", 2, ""),
    "event_p50": ("added latency of an event, p50", "us", 0, "75"),
    "event_p99": ("added latency of an event, p99", "us", 0, "250"),
    "list_cpu": ("CPU per GB of lists, plain", "s", 2, ""),
    "list_gzip_cpu": ("CPU per GB of lists, gzip", "s", 2, ""),
    "tls_get_plain": ("CPU per small GET, plain listener", "us", 1, ""),
    "tls_get": ("CPU per small GET, TLS listener", "us", 1, ""),
    "tls_get_times": ("the same, TLS to plain", "times", 2, ""),
    "tls_list_plain": (f"CPU per GB of {LARGE_LIST_ITEMS:,} pods, plain listener", "s", 2, ""),
    "tls_list": (f"CPU per GB of {LARGE_LIST_ITEMS:,} pods, TLS listener", "s", 2, ""),
    "tls_list_times": ("the same, TLS to plain", "times", 2, ""),
    "tls_gzip_plain": ("CPU per GB of the same, gzip, plain listener", "s", 2, ""),
    "tls_gzip": ("CPU per GB of the same, gzip, TLS listener", "s", 2, ""),
    "tls_gzip_times": ("the same, TLS to plain", "times", 2, ""),
    "tls_connection_plain": ("CPU per connection of one GET, plain listener", "us", 0, ""),
    "tls_connection": ("CPU per connection of one GET, TLS listener", "us", 0, ""),
    "tls_connection_times": ("the same, TLS to plain", "times", 2, ""),
    "start": ("exec to the first answer", "ms", 1, "9"),
    "rss_idle": ("RSS after the first answer", "MB", 1, "5"),
    "rss_loaded": ("RSS after the load", "MB", 1, ""),
    "watch_mem": (f"memory per watch, {WATCHES} open", "KiB", 1, ""),
    "watch_mem_many": (f"memory per watch, {MANY_WATCHES} open", "KiB", 1, "12"),
}

# What `--only` takes, and the rows that each gives.
GROUPS = {
    "start": ["start", "rss_idle"],
    "get": ["get1_cpu", "get1_rate", "get32_cpu", "get32_rate"],
    "list": ["list_cpu", "list_gzip_cpu"],
    "count": ["get1_instructions", "get32_instructions", "event_instructions", "get1_calls",
              "get32_calls", "event_calls"],
    "events": ["event_cpu", "event_p50", "event_p99"],
    "tls": [f"tls_{what}{how}" for what in ("get", "list", "gzip", "connection")
            for how in ("_plain", "", "_times")],
    "memory": ["watch_mem", "watch_mem_many"],
}


class Running:
    """A proxy that answers. With `over_tls` on another port, too; `trust` is for clients there."""

    def __init__(self, bench, proxy, over_tls=False):
        self.proxy = proxy
        self.port = bench.lab.free_port()
        self.tls_port = bench.lab.free_port() if over_tls else None
        argv = proxy.argv(bench.lab, bench.upstream, self.port, self.tls_port)
        self.process = bench.lab.spawn(proxy.name, argv, role="proxy")
        self.start_ms = first_answer_ms(self.process, self.port)
        self.process.find_workers()
        self.trust = (trust(proxy.authority(bench.lab, bench.upstream, self.port)) if over_tls
                      else None)

    def stop(self, bench):
        bench.lab.stop(self.process)


def start(bench, proxy):
    """Started for this figure alone; the last one of the round is kept and used."""
    running = Running(bench, proxy)
    running.stop(bench)
    return {"start": running.start_ms}


def idle(bench, running):
    del bench
    time.sleep(0.3)
    rss = running.process.rss_kib()
    warm(running.port, WARM_CONNECTIONS)
    return {"start": running.start_ms, "rss_idle": rss * 1024 / 1e6}


def loaded(bench, running):
    del bench
    running.process.check()
    return {"rss_loaded": running.process.rss_kib() * 1024 / 1e6}


def cpu_of(running):
    return lambda: {"cpu": running.process.cpu_ns()}


def spent(before, after):
    return {name: after[name] - before[name] for name in after}


def wrk(bench, running, connections, seconds, target, headers=(), sample=None):
    """Runs wrk against a proxy: its report, and how far what `sample` reads has gone meanwhile;
    the CPU nanoseconds of the proxy if not given."""
    sample = sample or cpu_of(running)
    argv = [bench.wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s",
            "-s", bench.wrk_script, "-H", "Accept: application/json",
            "-H", "User-Agent: operator/v1 (linux/amd64)"]
    for header in headers:
        argv += ["-H", header]
    before = sample()
    load = bench.lab.spawn("wrk", [*argv, f"http://127.0.0.1:{running.port}{target}"])
    report = load.next_json(seconds + 20)
    used = spent(before, sample())
    bench.lab.stop(load)
    running.process.check()
    if report["errors"] or not report["requests"]:
        raise BenchError(f"{report['errors']} errors in {report['requests']} requests")
    return report, used


def get(connections):
    def measure(bench, running):
        report, used = wrk(bench, running, connections, bench.seconds, POD)
        return {f"get{connections}_cpu": used["cpu"] / 1e3 / report["requests"],
                f"get{connections}_rate": report["requests"] / report["seconds"]}
    return measure


def lists(row, headers):
    def measure(bench, running):
        report, used = wrk(bench, running, 2, max(1, bench.seconds - 1), LIST, headers)
        # Per byte of the objects: with gzip fewer bytes travel, for the same list.
        return {row: used["cpu"] / 1e9 / (report["requests"] * len(bench.upstream.list) / 1e9)}
    return measure


def beside_plain(row, connect, batch, figure):
    """The same work plain and over TLS, in many small parts by turns, so that what else the
    machine does concerns both alike. `connect` makes a client of a port, which asks `batch` times
    in each part; `figure` makes what the row says of the CPU nanoseconds of one request."""
    def measure(bench, running):
        spent_ns = [0, 0]
        with connect(running.port, tls=None) as plain, \
                connect(running.tls_port, tls=running.trust) as over_tls:
            clients = (plain, over_tls)
            for client in clients:
                client.ask(batch)
            for part in range(bench.parts):
                # Plain, TLS, TLS, plain: neither always follows the other.
                for which in (0, 1) if part % 2 == 0 else (1, 0):
                    before = running.process.cpu_ns()
                    clients[which].ask(batch)
                    spent_ns[which] += running.process.cpu_ns() - before
        plain, over_tls = (figure(bench, ns / bench.parts / batch) for ns in spent_ns)
        return {f"{row}_plain": plain, row: over_tls, f"{row}_times": over_tls / plain}
    return measure


def in_us(bench, ns):
    del bench
    return ns / 1e3


def for_each_gb(bench, ns):
    return ns / len(bench.upstream.large_list)  # ns a byte are seconds a GB


BESIDE_PLAIN = {
    "small GETs over TLS": beside_plain("tls_get", Kept, 200, in_us),
    "large lists over TLS": beside_plain("tls_list", partial(Kept, path=LARGE_LIST), 1,
                                         for_each_gb),
    "large lists with gzip over TLS": beside_plain(
        "tls_gzip", partial(Kept, path=LARGE_LIST, headers=GZIP), 4, for_each_gb),
    "connections over TLS": beside_plain("tls_connection", Fresh, 10, in_us),
}


def watch_load(bench, port, watches, rate, warmup_ms, measure_ms):
    return bench.lab.spawn("watch_load", [
        f"{bench.tools}/watch_load", "--connect", f"127.0.0.1:{port}",
        "--target", watch_target(rate), "--watches", str(watches),
        "--warmup", str(warmup_ms), "--measure", str(measure_ms)])


def watch_events(bench, port, measure_ms, sample=dict):
    """EVENTS_PER_WATCH a second on each of WATCHES: the report, and how far what `sample` reads
    has gone while it was measured."""
    load = watch_load(bench, port, WATCHES, EVENTS_PER_WATCH, 500, measure_ms)
    load.next_json(70)
    load.next_json(10)
    before = sample()
    report = load.next_json(measure_ms / 1000 + 10)
    used = spent(before, sample())
    bench.lab.stop(load)
    wrong = {k: report[k] for k in ("missing", "repeated", "silent", "errors") if report[k]}
    if wrong:
        raise BenchError(f"of {report['events']} events: "
                         + ", ".join(f"{v} {k}" for k, v in wrong.items()))
    expected = WATCHES * EVENTS_PER_WATCH * report["seconds"]
    if report["events"] < 0.9 * expected:
        raise BenchError(f"only {report['events']} of {expected:.0f} events came")
    return report, used


def events(bench, running):
    """The latency here is all of it; what the path takes without a proxy goes off at the end."""
    report, used = watch_events(bench, running.port, bench.event_ms, cpu_of(running))
    return {"event_cpu": used["cpu"] / 1e3 / report["events"],
            "event_p50": report["p50_us"],
            "event_p99": report["p99_us"]}


def counts(kind, used, number):
    """Rows of instructions, in thousands, and of system calls where the machine tells them."""
    rows = {f"{kind}_instructions": (used["user"] + used["kernel"]) / 1e3 / number}
    if "calls" in used:
        rows[f"{kind}_calls"] = used["calls"] / number
    return rows


def count(bench, running):
    """What no other program's load can change: taken once, apart from the figures in time."""
    rows = {}
    with Counters(running.process.pids) as counters:
        for connections in (1, 32):
            report, used = wrk(bench, running, connections, 1, POD, sample=counters.read)
            rows |= counts(f"get{connections}", used, report["requests"])
        report, used = watch_events(bench, running.port, 1000, counters.read)
        rows |= counts("event", used, report["events"])
    return rows


def memory(bench, proxy):
    """A fresh proxy, so that what earlier load left behind does not count. Each watch brings an
    event a second; the second step is opened on top of the first."""
    running = Running(bench, proxy)
    gets(running.port, 1, LIST)
    time.sleep(0.3)
    idle_kib = running.process.rss_kib()
    loads, values, opened = [], {}, 0
    for row, watches in (("watch_mem", WATCHES), ("watch_mem_many", MANY_WATCHES)):
        load = watch_load(bench, running.port, watches - opened, 1, bench.hold_ms, 60000)
        loads.append(load)
        load.next_json(70)
        load.next_json(bench.hold_ms / 1000 + 10)
        opened = watches
        values[row] = (running.process.rss_kib() - idle_kib) / watches
    running.process.check()
    for load in loads:
        bench.lab.stop(load)
    running.stop(bench)
    return values
