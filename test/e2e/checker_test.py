# SPDX-License-Identifier: Apache-2.0
"""The judge of the tests with informers sees what is wrong: with made-up events and connections."""

import json
import random
import time
import unittest

import checker
import harness
import random_rules
import resources
import wire_informer
from real_clients import Event


class Client:
    """Events as a test writes them; the cache that follows from them."""

    def __init__(self, *watches):
        self.name = "made-up"
        self.watches = list(watches)
        self.events = []
        self.stores = {watch: {} for watch in watches}

    def say(self, kind, at=None, watch=None, **fields):
        watch = watch or self.watches[0]
        self.events.append(Event(kind, watch, time.time_ns() if at is None else at, fields))

    def dump(self):
        return self.stores

    def of(self, watch, *kinds):
        return [e for e in self.events if e.watch == watch and e.kind in kinds]


class ControlPlane:
    """Lists what a test says."""

    def __init__(self, items):
        self.items = items

    def fetch(self, _):
        things = [
            {"metadata": {"namespace": "n", "name": name, "resourceVersion": rv, "labels": labels}}
            for name, rv, labels in self.items
        ]
        body = json.dumps({"kind": "SecretList", "items": things, "metadata": {}}).encode()
        return type("Answer", (), {"body": body})


def rules(selector, generation=1):
    return random_rules.Rules([harness.limit(["secrets"], selector)], generation)


class EventsTest(unittest.TestCase):
    def setUp(self):
        self.client = Client("typed:secrets")
        self.judge = checker.Checker(None, rules("app=foo"), enforce=lambda document: None)
        self.judge.add(self.client)

    def problems(self):
        return [problem.split(": ")[1] for problem in self.judge.check_events()]

    def add(self, kind="add", key="n/a", rv="5", app="foo", **more):
        self.client.say(kind, key=key, rv=rv, labels={"app": app}, **more)

    def test_good_events(self):
        self.client.say("list", items=1, rv="5")
        self.add()
        self.add("update", rv="6")
        self.add("delete", rv="7")
        self.add(rv="8")
        self.client.say("list", items=1, rv="9")
        self.add("update", rv="8")
        self.assertEqual([], self.problems())

    def test_senseless_events(self):
        self.client.say("list", items=0, rv="5")
        self.add("delete")
        self.add("update")
        self.add("add", rv="6")
        self.add("update", rv="6")
        self.add("update", rv="5")
        self.assertEqual(
            ["deleted without being there", "updated without being there", "added twice (was 5)",
             "delivered twice", "went back (from 6)"],
            self.problems(),
        )  # fmt: skip

    def test_objects_outside(self):
        self.add(app="bar")
        self.assertEqual(["outside the rules in force"], self.problems())
        self.add("update", rv="6", app="foo")
        self.add("update", rv="7", app="bar")
        self.assertEqual(["outside the rules in force"], self.problems())

    def test_reloads(self):
        self.judge.reload(rules("app=bar", 2))
        self.add(app="foo")
        self.add(key="n/b", app="bar")
        self.assertEqual([], self.problems(), "a moment ago it was right")
        at = time.time_ns() + 2 * checker.SLACK_NS
        self.client.say("add", at, key="n/c", rv="5", labels={"app": "foo"})
        self.assertEqual(["outside the rules in force"], self.problems())

    def test_reloads_to_the_byte(self):
        self.add(app="foo", since=0)
        self.judge.reload(rules("app=bar", 2))
        self.add(key="n/b", app="foo", since=0)
        self.add(key="n/c", app="bar", since=0)
        self.assertEqual([], self.problems())
        self.add(key="n/d", app="foo", since=1)
        self.assertEqual(["outside the rules in force"], self.problems())


class CacheTest(unittest.TestCase):
    def judge(self, store):
        items = [("a", "1", {"app": "foo"}), ("b", "2", {"app": "foo"}), ("c", "3", {})]
        judge = checker.Checker(ControlPlane(items), rules("app=foo"))
        client = Client("secrets")
        client.stores["secrets"] = store
        judge.add(client)
        return judge

    def test_truth(self):
        self.judge({"n/a": "1", "n/b": "2"}).quiesce(1, stable=0.1)

    def test_what_is_not_the_truth(self):
        for store in (
            {"n/a": "1"},
            {"n/a": "1", "n/b": "1"},
            {"n/a": "1", "n/b": "2", "n/c": "3"},
            {},
        ):
            with self.assertRaisesRegex(AssertionError, "not the truth"):
                self.judge(store).quiesce(0.2)


class RulesTest(unittest.TestCase):
    def test_limits_are_joined(self):
        both = random_rules.Rules(
            [
                harness.limit(["*"], "app", [""]),
                harness.limit(["secrets", "gears"], "hash in (1,2)"),
                harness.limit(["gears"], "tier", [resources.GROUP]),
            ],
            1,
        )
        for resource, labels, shown in (
            (resources.SECRETS, {"app": "x", "hash": "1"}, True),
            (resources.SECRETS, {"app": "x"}, False),
            (resources.SECRETS, {"hash": "2"}, False),
            (resources.PODS, {"app": "x"}, True),
            (resources.PODS, {}, False),
            (resources.GEARS, {"hash": "1", "tier": "y"}, True),
            (resources.GEARS, {"hash": "1", "app": "x"}, False),
        ):
            self.assertEqual(shown, both.shows(resource)(labels), (resource, labels))

    def test_generated_rules(self):
        """They show something, hide something, and differ; the same seed gives the same."""
        runs = []
        for _ in range(2):
            generator = random_rules.Generator(random.Random(3), ["x", "y", "z"], resources.ALL)
            runs.append([generator.next() for _ in range(300)])
        self.assertEqual([r.document for r in runs[0]], [r.document for r in runs[1]])
        pick = random.Random(4)
        shown = what_is_shown(runs[0], pick)
        for resource in resources.ALL:
            share = sum(shown[resource]) / len(shown[resource])
            self.assertTrue(0.2 < share < 0.8, (resource, share))


def what_is_shown(all_rules, pick):
    shown = {resource: [] for resource in resources.ALL}
    for some in all_rules:
        for resource in resources.ALL:
            labels = {harness.NAMESPACE_LABEL: pick.choice("xyz")}
            labels[harness.HASH_LABEL] = str(pick.randrange(32))
            labels["app"] = pick.choice(("foo", "bar"))
            shown[resource].append(some.shows(resource)(labels))
    return shown


class BodyTest(unittest.TestCase):
    """Where events begin among the bytes of a connection."""

    def read(self, data, cuts, protobuf=False):
        body = wire_informer.Body(protobuf, 100)
        found = []
        for begin, end in zip([0, *cuts], [*cuts, len(data)]):
            found += body.feed(data[begin:end])
        return found, body.ended

    def test_places_whatever_the_pieces(self):
        texts = [json.dumps({"type": "ADDED", "object": {"metadata": {"name": name}}}) + "\n"
                 for name in ("one", "two", "three")]  # fmt: skip
        payload = "".join(texts).encode()
        sizes = [len(texts[0]) - 7, 12, len(texts[1]), len(payload)]
        data, places, at = b"", {}, 0
        starts = [0, len(texts[0]), len(texts[0]) + len(texts[1])]
        for size in sizes:
            chunk = payload[at : at + size]
            data += b"%x\r\n" % len(chunk)
            for start in starts:
                if at <= start < at + len(chunk):
                    places[start] = 100 + len(data) + start - at
            data += chunk + b"\r\n"
            at += len(chunk)
        data += b"0\r\n\r\n"
        expected = [places[start] for start in starts]
        pick = random.Random(5)
        for _ in range(300):
            cuts = sorted(pick.sample(range(1, len(data)), pick.randrange(12)))
            found, ended = self.read(data, cuts)
            self.assertTrue(ended)
            self.assertEqual(["one", "two", "three"], [event.item.name for event, _ in found])
            self.assertEqual(expected, [place for _, place in found])


if __name__ == "__main__":
    harness.main()
