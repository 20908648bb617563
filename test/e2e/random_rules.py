# SPDX-License-Identifier: Apache-2.0
"""Random limits, and which objects they show: evaluated here, not by the code under test."""

import harness
import objects

NOTHING = "cmesh-none,!cmesh-none"


class Rules:
    """A rules document and what it means."""

    def __init__(self, limits, generation, shard="shard-a", **spec):
        self.limits = limits
        self.generation = generation
        self.document = harness.rules_document(*limits, generation=generation, shard=shard)
        self.document["spec"].update(spec)

    def shows(self, resource):
        """A function from labels to bool: limits that match the resource are ANDed."""
        holds = [
            objects.parse_selector(limit["selector"])
            for limit in self.limits
            if {"*", resource.group} & set(limit["apiGroups"])
            and {"*", resource.plural} & set(limit["resources"])
        ]
        return lambda labels: all(matches(labels) for matches in holds)

    def __repr__(self):
        lines = [
            f"{limit['apiGroups']} {limit['resources']}: {limit['selector']}"
            for limit in self.limits
        ]
        return f"generation {self.generation}: " + ("; ".join(lines) or "no limits")


class Generator:
    """Makes one set of limits after the other; most of them differ little from the one before."""

    def __init__(self, pick, namespaces, resources):
        self.pick = pick
        self.namespaces = namespaces
        self.resources = resources
        self.limits = []
        self.generation = 0

    def next(self):
        pick = self.pick
        limits = list(self.limits)
        dice = pick.random()
        if dice < 0.5 and limits:
            at = pick.randrange(len(limits))
            limits[at] = self.changed(limits[at])
        elif dice < 0.6 and limits:
            del limits[pick.randrange(len(limits))]
        elif dice < 0.7:
            limits.append(self.limit())
        else:
            limits = [self.limit() for _ in range(pick.choice((0, 1, 2, 3, 4, 5)))]
        self.limits = limits
        self.generation += 1
        return Rules(limits, self.generation)

    def some(self, values, least=1):
        return sorted(self.pick.sample(values, self.pick.randint(least, len(values))))

    def limit(self):
        pick = self.pick
        if pick.random() < 0.2:
            groups, plurals = ["*"], ["*"]
        else:
            chosen = [pick.choice(self.resources) for _ in range(pick.randint(1, 3))]
            groups = ["*"] if pick.random() < 0.5 else sorted({r.group for r in chosen})
            plurals = sorted({r.plural for r in chosen})
        return harness.limit(plurals, self.selector(), groups)

    def selector(self):
        pick = self.pick
        if pick.random() < 0.07:
            return NOTHING
        makers = [self.namespace_set, self.hash_set, self.app]
        return ",".join(make() for make in pick.sample(makers, pick.choice((1, 1, 2, 3))))

    def namespace_set(self):
        values = ",".join(self.some(self.namespaces))
        return f"{harness.NAMESPACE_LABEL} {self.pick.choice(('in', 'in', 'notin'))} ({values})"

    def hash_set(self):
        values = ",".join(map(str, self.some(range(32), 8)))
        return f"{harness.HASH_LABEL} {self.pick.choice(('in', 'in', 'notin'))} ({values})"

    def app(self):
        return self.pick.choice(("app", "!app", "app=foo", "app!=foo", "app in (foo,bar)"))

    def changed(self, limit):
        """As a shard changes in life: it gains or loses a namespace, or some hashes."""
        selector = limit["selector"]
        for key, values in (
            (harness.NAMESPACE_LABEL, self.namespaces),
            (harness.HASH_LABEL, [str(i) for i in range(32)]),
        ):
            head, found, tail = selector.partition(f"{key} in (")
            if found:
                inside, _, rest = tail.partition(")")
                now = set(inside.split(",")) ^ {self.pick.choice(values)}
                if now:
                    changed = f"{head}{key} in ({','.join(sorted(now))}){rest}"
                    return harness.limit(limit["resources"], changed, limit["apiGroups"])
        return harness.limit(limit["resources"], self.selector(), limit["apiGroups"])
