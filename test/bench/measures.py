# SPDX-License-Identifier: Apache-2.0
"""What is measured: the rows of the table, and how each figure is taken.

A measure gets the bench (its lab, upstream, tools and durations) and a running proxy, and returns
{row: value}. CPU is that of the proxy's processes alone, sampled around the load; where a row says
so that of the server's.
"""

import time
from functools import partial

from client import GZIP, Fresh, Kept, SlowReader, first_answer_ms, gets, start_at_once, trust, warm
from counters import Counters
from lab import BenchError
from server import HUGE_LIST, HUGE_LIST_BYTES, LARGE_LIST, LARGE_LIST_ITEMS, LIST, POD, watch_target

WATCHES = 100
EVENTS_PER_WATCH = 50
MANY_WATCHES = 1000
WARM_CONNECTIONS = 32
AT_ONCE = 33  # what one `kubectl get` asks for to learn what there is
SLOW_READERS = 4
OPEN_LIMIT = 240  # seconds; as watch_load has it

# row: (what it says, unit, decimals, what the project aims at)
ROWS = {
    "get1_cpu": ("CPU per small GET, 1 connection", "us", 1, "nginx"),
    "get1_rate": ("requests, 1 connection", "1/s", 0, ""),
    "get1_p50": ("latency of a small GET, 1 connection, p50", "us", 0, ""),
    "get1_p99": ("the same, p99", "us", 0, ""),
    "get32_cpu": ("CPU per small GET, 32 connections", "us", 1, "nginx"),
    "get32_rate": ("requests, 32 connections", "1/s", 0, ""),
    "get32_p50": ("latency of a small GET, 32 connections, p50", "us", 0, ""),
    "get32_p99": ("the same, p99", "us", 0, ""),
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
    "slow_mem": (f"memory for each of {SLOW_READERS} slow readers of a {HUGE_LIST_BYTES // 10**6} MB "
                 "list, peak", "KiB", 0, ""),
    "slow_get": ("the longest small GET of others meanwhile", "ms", 1, ""),
    "get1_server": ("server: CPU per small GET, 1 connection", "us", 1, ""),
    "get32_server": ("server: CPU per small GET, 32 connections", "us", 1, ""),
    "event_server": ("server: CPU per watch event", "us", 1, ""),
    "watch_connections": (f"server: connections, {WATCHES} watches open", "", 0, ""),
    "watch_connections_many": (f"server: connections, {MANY_WATCHES} watches open", "", 0, ""),
    "once_connections": (f"server: connections for {AT_ONCE} requests at once", "", 0, ""),
    "once_handshakes": ("server: full handshakes of these", "", 0, ""),
    "once_resumed": ("server: resumed handshakes of these", "", 0, ""),
    "once_cpu": (f"CPU for {AT_ONCE} requests at once after the start", "ms", 2, ""),
    "once_server": ("server: CPU for these", "ms", 2, ""),
}


def asked_watches(count):
    """The rows of `--watches`."""
    return {"asked_mem": (f"memory per watch, {count:,} open", "KiB", 1, ""),
            "asked_connections": (f"server: connections, {count:,} watches open", "", 0, "")}


# What `--only` takes, and the rows that each gives.
GROUPS = {
    "start": ["start", "rss_idle"],
    "get": [f"get{connections}_{what}" for connections in (1, 32)
            for what in ("cpu", "rate", "p50", "p99", "server")],
    "list": ["list_cpu", "list_gzip_cpu"],
    "count": ["get1_instructions", "get32_instructions", "event_instructions", "get1_calls",
              "get32_calls", "event_calls"],
    "events": ["event_cpu", "event_server", "event_p50", "event_p99"],
    "tls": [f"tls_{what}{how}" for what in ("get", "list", "gzip", "connection")
            for how in ("_plain", "", "_times")],
    "memory": ["watch_mem", "watch_mem_many", "watch_connections", "watch_connections_many"],
    "once": ["once_connections", "once_handshakes", "once_resumed", "once_cpu", "once_server"],
    "slow": ["slow_mem", "slow_get"],
}

# What can be said of a client and a server without a proxy.
OF_NO_PROXY = [row for row in GROUPS["get"] if not row.endswith("_cpu")]


class Running:
    """A proxy that answers. With `over_tls` on another port, too; `trust` is for clients there."""

    headers = ()

    # pylint: disable-next=too-many-arguments
    def __init__(self, bench, proxy, over_tls=False, upstream=None, first_path=POD):
        upstream = upstream or bench.upstream
        self.proxy = proxy
        self.port = bench.lab.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.tls_port = bench.lab.free_port() if over_tls else None
        argv = proxy.argv(bench.lab, upstream, self.port, self.tls_port)
        self.process = bench.lab.spawn(proxy.name, argv, role="proxy")
        self.start_ms = first_answer_ms(self.process, self.port, first_path)
        self.process.find_workers()
        self.trust = (trust(proxy.authority(bench.lab, upstream, self.port)) if over_tls
                      else None)

    def stop(self, bench):
        bench.lab.stop(self.process)


class NoProcess:
    """In the place of a proxy's."""

    def cpu_ns(self):
        return 0

    def check(self):
        pass


class NoProxy:
    """In the place of a running one."""

    def __init__(self, bench, proxy):
        self.proxy = proxy
        self.process = NoProcess()
        self.url = f"https://127.0.0.1:{bench.upstream.tls_port}"
        self.headers = (f"Authorization: Bearer {bench.upstream.token}",)

    def stop(self, bench):
        pass


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


def cpu_of_both(bench, running):
    return lambda: {"cpu": running.process.cpu_ns(), "server": bench.upstream.cpu_ns()}


def spent(before, after):
    return {name: after[name] - before[name] for name in after}


def wrk(bench, running, connections, seconds, target, headers=(), sample=None):
    """Runs wrk against a proxy: its report, and how far what `sample` reads has gone meanwhile;
    the CPU nanoseconds of the proxy if not given."""
    sample = sample or cpu_of(running)
    argv = [bench.wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s",
            "-s", bench.wrk_script, "-H", "Accept: application/json",
            "-H", "User-Agent: operator/v1 (linux/amd64)"]
    for header in (*headers, *running.headers):
        argv += ["-H", header]
    before = sample()
    load = bench.lab.spawn("wrk", [*argv, running.url + target])
    report = load.next_json(seconds + 20)
    used = spent(before, sample())
    bench.lab.stop(load)
    running.process.check()
    if report["errors"] or not report["requests"]:
        raise BenchError(f"{report['errors']} errors in {report['requests']} requests")
    return report, used


def get(connections):
    def measure(bench, running):
        report, used = wrk(bench, running, connections, bench.seconds, POD,
                           sample=cpu_of_both(bench, running))
        figures = {"rate": report["requests"] / report["seconds"],
                   "p50": report["p50_us"], "p99": report["p99_us"],
                   "server": used["server"] / 1e3 / report["requests"]}
        if running.proxy.has_process:
            figures["cpu"] = used["cpu"] / 1e3 / report["requests"]
        return {f"get{connections}_{what}": value for what, value in figures.items()}
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
    load.next_json(OPEN_LIMIT)
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
    report, used = watch_events(bench, running.port, bench.event_ms, cpu_of_both(bench, running))
    return {"event_cpu": used["cpu"] / 1e3 / report["events"],
            "event_server": used["server"] / 1e3 / report["events"],
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


def open_watches(bench, running, count):
    """So many more, each with an event a second; who has them open."""
    load = watch_load(bench, running.port, count, 1, bench.hold_ms, 60000)
    load.next_json(OPEN_LIMIT)
    load.next_json(bench.hold_ms / 1000 + 10)
    return load


def idle_kib(running):
    """Of a fresh proxy that has been asked for a list."""
    gets(running.port, 1, LIST)
    time.sleep(0.3)
    return running.process.rss_kib()


def memory(bench, proxy):
    """A fresh proxy, so that what earlier load left behind does not count. Each watch brings an
    event a second; the second step is opened on top of the first."""
    running = Running(bench, proxy)
    before = idle_kib(running)
    loads, values, opened = [], {}, 0
    for step, watches in (("", WATCHES), ("_many", MANY_WATCHES)):
        loads.append(open_watches(bench, running, watches - opened))
        opened = watches
        values[f"watch_mem{step}"] = (running.process.rss_kib() - before) / watches
        values[f"watch_connections{step}"] = bench.upstream.connections()
    running.process.check()
    for load in loads:
        bench.lab.stop(load)
    running.stop(bench)
    return values


def asked(count):
    """As many watches as `--watches` says, of a proxy that is told to have room for them."""
    def measure(bench, proxy):
        running = Running(bench, proxy, upstream=bench.upstream.target(clients=count))
        before = idle_kib(running)
        load = open_watches(bench, running, count)
        values = {"asked_mem": (running.process.rss_kib() - before) / count,
                  "asked_connections": bench.upstream.connections()}
        running.process.check()
        bench.lab.stop(load)
        running.stop(bench)
        return values
    return measure


def once(bench, proxy):
    """What a command asks for at once when it starts, of a proxy that has answered one request."""
    upstream = bench.upstream
    before = len(upstream.handshakes())
    running = Running(bench, proxy, upstream=upstream.target(upstream.counted_port))
    sample = cpu_of_both(bench, running)
    at_first = sample()
    start_at_once(running.port, AT_ONCE)
    used = spent(at_first, sample())
    handshakes = upstream.handshakes()[before:]
    values = {"once_connections": upstream.connections(upstream.counted_port),
              "once_handshakes": handshakes.count("."), "once_resumed": handshakes.count("r"),
              "once_cpu": used["cpu"] / 1e6, "once_server": used["server"] / 1e6}
    running.process.check()
    running.stop(bench)
    return values


def longest_get_ms(running, seconds):
    """Of one client that asks now and then."""
    longest, deadline = 0, time.monotonic() + seconds
    with Kept(running.port) as kept:
        while time.monotonic() < deadline:
            begun = time.monotonic()
            kept.ask(1)
            longest = max(longest, time.monotonic() - begun)
            time.sleep(0.01)
    return longest * 1e3


def slow(bench, proxy):
    """A fresh proxy some of whose clients do not take what the server has for them."""
    running = Running(bench, proxy)
    before = idle_kib(running)
    running.process.forget_peaks()
    readers = [SlowReader(running.port, HUGE_LIST, bench.slow_seconds) for _ in range(SLOW_READERS)]
    longest = longest_get_ms(running, bench.slow_seconds)
    for reader in readers:
        reader.check(bench.upstream.huge_list)
    peak = running.process.peak_kib()
    running.process.check()
    running.stop(bench)
    return {"slow_mem": (peak - before) / SLOW_READERS, "slow_get": longest}
