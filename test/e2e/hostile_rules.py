# SPDX-License-Identifier: Apache-2.0
"""Rules documents that make whoever reads them work: each fits into a ConfigMap, and means as much
as a ConfigMap can.

    hostile_rules.py NAME > rules.json     hostile_rules.py      the names
"""

import json
import string
import sys

CONFIGMAP_MAX = 1024 * 1024


def document(limits, selectors=None, namespace="ns", name="shard-a", generation=1):
    spec = {"limits": limits}
    if selectors is not None:
        spec["selectors"] = selectors
    return {
        "apiVersion": "cmesh/v1" if selectors is None else "cmesh/v2",
        "kind": "ShardRules",
        "shard": {"namespace": namespace, "name": name},
        "generation": generation,
        "spec": spec,
    }


def limit(groups, resources, selector):
    return {"apiGroups": groups, "resources": resources, "selector": selector}


def short_names(count, first=string.ascii_lowercase):
    """As short as they can be."""
    digits = string.ascii_lowercase + string.digits
    names = []
    length = 1
    while len(names) < count:
        size = len(first) * len(digits) ** (length - 1)
        for i in range(min(size, count - len(names))):
            text = ""
            for _ in range(length - 1):
                text = digits[i % len(digits)] + text
                i //= len(digits)
            names.append(first[i] + text)
        length += 1
    return names


def keys(count):
    return ",".join(f"k{i}" for i in range(count))


def wide_and_narrow(narrow=7000, wide=1000):
    """A wide limit that is a part of each narrow one."""
    limits = [limit(["*"], ["*"], keys(wide))]
    return limits + [limit([""], [f"r{i}"], f"n{i}") for i in range(narrow)]


def wide_names(narrow=1000, names=500):
    """Limits of their own beside one that names namespaces: what somebody may mean."""
    listed = ",".join(f"namespace-{i}" for i in range(names))
    limits = [limit(["*"], ["*"], f"ns in ({listed})")]
    return limits + [limit([""], [f"r{i}"], f"n{i}") for i in range(narrow)]


def many_wide(wide=900, narrow=4000):
    limits = [limit(["*"], ["*"], f"w{i}") for i in range(wide)]
    return limits + [limit([""], [f"r{i}"], f"n{i}") for i in range(narrow)]


def wide_groups(count):
    """(g, *) for so many groups."""
    names = short_names(count)
    return [limit(names[i : i + 1000], ["*"], "a") for i in range(0, count, 1000)]


def wide_both(side):
    """(g, *) and (*, r): each with each."""
    names = short_names(side)
    made = []
    for i in range(0, side, 1000):
        made.append(limit(names[i : i + 1000], ["*"], f"g{i}"))
        made.append(limit(["*"], names[i : i + 1000], f"r{i}"))
    return made


def long_lists():
    """Lists as long as they can be, which are to hold each entry once."""
    names = short_names(1000)
    return [limit([""], names, "a")] * 180


def cross(side, times):
    """The same pairs again and again, each time by another selector."""
    names = short_names(side)
    return [limit(names, names, f"s{i}") for i in range(times)]


def different(limits, values):
    """No limit touches another."""
    made = []
    for i in range(limits):
        listed = ",".join(f"team-{i}-{j}" for j in range(values))
        made.append(limit([""], [f"r{i}"], f"k in ({listed})"))
    return made


def long_writing(limits=9000):
    """One text that is long and means little, which all limits have."""
    text = "k in (" + ",".join(["a"] * 60000) + ")"
    return document([limit([""], [f"r{i}"], 0) for i in range(limits)], [text])


def large_shared(lists=100, limits=980, names=800):
    """8 MB as version 1."""
    selectors = [
        "k in (" + ",".join(f"t{i:02}{j:04}" for j in range(names)) + ")" for i in range(lists)
    ]
    made = [limit([""], [f"r{i}"], i % lists) for i in range(limits)]
    return document(made, selectors)


def many_selectors(count=1000):
    """One-character values, the most of them that a text has."""
    values = ",".join(short_names(170))
    return [limit([""], [f"r{i}"], f"{a} in ({values})") for i, a in enumerate(short_names(count))]


def honest(limits=1000):
    return [
        limit([f"g{i % 50}.example.com"], [f"r{i}"], f"app=x{i},ns in (a{i},b{i},c{i})")
        for i in range(limits)
    ]


SHAPES = {
    "honest": lambda: document(honest()),
    "wide-and-narrow": lambda: document(wide_and_narrow()),
    "wide-and-narrow-small": lambda: document(wide_and_narrow(8000, 400)),
    "wide-and-narrow-fits": lambda: document(wide_and_narrow(150, 400)),
    "wide-names": lambda: document(wide_names()),
    "wide-names-most": lambda: document(wide_names(1050, 1000)),
    "many-wide": lambda: document(many_wide()),
    "many-wide-fits": lambda: document(many_wide(60, 1000)),
    "wide-groups": lambda: document(wide_groups(65000)),
    "wide-groups-fit": lambda: document(wide_groups(16000)),
    "wide-both": lambda: document(wide_both(30000)),
    "wide-both-fit": lambda: document(wide_both(120)),
    "long-lists": lambda: document(long_lists()),
    "cross": lambda: document(cross(256, 16)),
    "cross-fits": lambda: document(cross(120, 9)),
    "different": lambda: document(different(1000, 80)),
    "many-selectors": lambda: document(many_selectors()),
    "long-writing": long_writing,
    "large-shared": large_shared,
}


def text(name):
    made = json.dumps(SHAPES[name](), separators=(",", ":"))
    assert len(made) < CONFIGMAP_MAX, (name, len(made))
    return made


if __name__ == "__main__":
    print("\n".join(SHAPES) if len(sys.argv) == 1 else text(sys.argv[1]))
