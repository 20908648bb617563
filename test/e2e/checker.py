# SPDX-License-Identifier: Apache-2.0
"""Judges what informers show while the rules change.

What is a failure:

- an object delivered (add or update) that no rules show which were in force when it was sent. A
  real client's event is as old as its callback, less SLACK_NS for its decoding, and less what the
  machine stood still then; a WireInformer's is judged to the byte.
- at quiescence, a cache that is not the truth: what a direct list shows, filtered by the rules in
  force; each object in its newest version.
- an event that makes no sense to a handler: added twice, updated or deleted without being there,
  a version that goes back; the same version again other than by a list.
"""

import collections
import threading
import time

import resources

# How long after it was received an event may reach a callback of a real client, on a machine that
# is busy with other tests too.
SLACK_NS = 2_000_000_000


class Pulse:
    """Notices when this process gets no time for long: then the clients may have got none either."""

    beat = 0.05
    forgiven_ns = 250_000_000

    def __init__(self):
        self.late = []  # (when, ns)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            began = time.time_ns()
            time.sleep(self.beat)
            now = time.time_ns()
            late = now - began - int(self.beat * 1e9)
            if late > self.forgiven_ns:
                self.late.append((now, late))

    def stood_still(self, since, until):
        return sum(late for at, late in list(self.late) if since <= at and at - late <= until)


PULSE = Pulse()


class Period:
    """Rules, from when on they may have been in force and when others were confirmed (ns)."""

    def __init__(self, rules, began):
        self.rules = rules
        self.began = began
        self.ended = None
        self.cache = {}

    def shows(self, resource):
        if resource not in self.cache:
            self.cache[resource] = self.rules.shows(resource)
        return self.cache[resource]


class Checker:
    """Of the clients of one localproxy. `enforce(document)` returns when that is confirmed."""

    def __init__(self, control_plane, rules, enforce=None):
        self.control_plane = control_plane
        self.enforce = enforce
        self.periods = [Period(rules, time.time_ns())]
        self.clients = []
        self.checked = {}  # (client, watch) -> History
        self.delays = []  # seconds from reload to confirmation

    @property
    def rules(self):
        return self.periods[-1].rules

    def add(self, *clients):
        """`since` of a WireInformer counts from here."""
        for client in clients:
            client.first_period = len(self.periods) - 1
        self.clients += clients

    def remove(self, client):
        self.clients.remove(client)

    def reload(self, rules):
        period = Period(rules, time.time_ns())
        self.periods.append(period)
        self.enforce(rules.document)
        for client in self.clients:
            if hasattr(client, "mark"):
                client.mark()
        self.periods[-2].ended = time.time_ns()
        self.delays.append((self.periods[-2].ended - period.began) / 1e9)

    def in_force(self, client, event):
        """The periods whose rules may have let it through."""
        if "since" in event.fields:
            periods = self.periods[client.first_period + event.fields["since"] :]
        else:
            oldest = event.at - SLACK_NS
            oldest -= PULSE.stood_still(oldest, event.at)
            periods = [p for p in self.periods if p.ended is None or p.ended >= oldest]
        return [period for period in periods if period.began <= event.at]

    # ---- events ----

    def check_events(self):
        """All that came so far. Returns what is wrong, as text."""
        problems = []
        for client in self.clients:
            for watch in client.watches:
                history = self.checked.setdefault((client, watch), History(watch))
                for event, problem in history.go_on(client.events):
                    problems.append(f"{client.name}: {problem}: {event}")
                    problems[-1] += "".join(f"\n    {e}" for e in doings(client, event))
                for event in history.shown:
                    if not self.allowed(client, event):
                        problems.append(self.outside(client, event))
                history.shown.clear()
        return problems

    def assert_events(self):
        if problems := self.check_events():
            more = f"\n... and {len(problems) - 4} more" if len(problems) > 4 else ""
            raise AssertionError("\n".join(["", *problems[:4]]) + more)

    def allowed(self, client, event):
        resource, _ = resources.of_watch(event.watch)
        return any(p.shows(resource)(event.labels) for p in self.in_force(client, event))

    def outside(self, client, event):
        lines = [f"{client.name}: outside the rules in force: {event}"]
        for period in self.in_force(client, event):
            ended = "now" if period.ended is None else f"{period.ended / 1e9:.3f}"
            lines.append(f"    {period.began / 1e9:.3f} to {ended}: {period.rules}")
        return "\n".join(lines)

    # ---- caches ----

    def expected(self, resource, namespace):
        shows = self.periods[-1].shows(resource)
        items = resources.listed(self.control_plane, resource, namespace)
        return {
            f"{item.namespace}/{item.name}": item.resource_version
            for item in items
            if shows(item.labels)
        }

    def differences(self):
        """(client, watch, key, cached version, true version) where a cache is not the truth."""
        found = []
        truths = {}
        for client in self.clients:
            for watch, cached in client.dump().items():
                place = resources.of_watch(watch)
                if place not in truths:
                    truths[place] = self.expected(*place)
                truth = truths[place]
                for key in sorted(cached.keys() | truth.keys()):
                    if cached.get(key) != truth.get(key):
                        found.append((client, watch, key, cached.get(key), truth.get(key)))
        return found

    def quiesce(self, timeout, stable=0.5):
        """Waits, when nobody writes any more, until all caches are the truth, and stay so."""
        began = time.monotonic()
        right_since = None
        while True:
            differences = self.differences()
            now = time.monotonic()
            if differences:
                right_since = None
                if now - began > timeout:
                    raise AssertionError(self.explain(differences, timeout))
            elif right_since is None:
                right_since = now
            elif now - right_since > stable:
                break
            time.sleep(0.1)
        self.assert_events()
        return right_since - began

    def explain(self, differences, timeout):
        lines = [f"{len(differences)} entries of caches are not the truth after {timeout} s:"]
        by_watch = collections.defaultdict(list)
        for client, watch, key, cached, truth in differences:
            by_watch[client, watch].append((key, cached, truth))
        for (client, watch), entries in by_watch.items():
            lines.append(f"{client.name} {watch}: {len(entries)}")
            for key, cached, truth in entries[:3]:
                lines.append(f"  {key}: cached {cached}, true {truth}; its last events:")
                events = [e for e in client.of(watch, "add", "update", "delete") if e.key == key]
                lines += [f"    {event}" for event in events[-3:]]
            doings = client.of(watch, "list", "watch", "expired", "ended", "error")
            lines += [f"  {event}" for event in doings[-6:]]
        lines.append("the last rules:")
        lines += [f"  {period.began / 1e9:.3f} {period.rules}" for period in self.periods[-4:]]
        return "\n".join(lines)

    def lists(self):
        """How often each watch of each client has listed."""
        return {
            (client.name, watch): len(client.of(watch, "list"))
            for client in self.clients
            for watch in client.watches
        }


def doings(client, event):
    """What the client did around an event, and what it heard of the object before."""
    around = [
        e
        for e in list(client.events)
        if e.watch == event.watch
        and e.at <= event.at + 1_000_000_000
        and ("key" not in e.fields or e.key == event.key)
    ]
    return around[-10:]


class History:
    """One watch's events in order, as a handler meets them."""

    def __init__(self, watch):
        self.watch = watch
        self.at = 0
        self.versions = {}
        self.lists = 0
        self.may_repeat = 0  # events that a list explains
        self.repeated = 0
        self.shown = []  # add and update events that nobody has looked at
        self.count = collections.Counter()

    def go_on(self, events):
        end = len(events)
        for i in range(self.at, end):
            event = events[i]
            if event.watch == self.watch:
                self.count[event.kind] += 1
                if problem := self.take(event):
                    yield event, problem
        self.at = end

    def take(self, event):
        if event.kind == "list":
            self.lists += 1
            if self.lists > 1:
                self.may_repeat += event.fields["items"]
        elif event.kind == "add":
            self.shown.append(event)
            before, self.versions[event.key] = self.versions.get(event.key), event.version
            return None if before is None else f"added twice (was {before})"
        elif event.kind == "update":
            self.shown.append(event)
            before, self.versions[event.key] = self.versions.get(event.key), event.version
            return self.update_problem(before, event)
        elif event.kind == "delete":
            if self.versions.pop(event.key, None) is None:
                return "deleted without being there"
        return None

    def update_problem(self, before, event):
        if before is None:
            return "updated without being there"
        if int(event.version) < int(before):
            return f"went back (from {before})"
        if event.version == before:
            self.repeated += 1
            # A callback may run before the line about its list is printed: judged a little later.
            if self.repeated > self.may_repeat:
                return "delivered twice"
        return None
