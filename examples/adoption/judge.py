#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the API server's audit log says of the whole demo: by whom each namespace was worked on, that no two
worked on one, and how long changes waited.

    judge.py AUDIT-LOG PODS PHASES

PODS has a line `POD SHARD` for each pod there ever was, PHASES a line `SECONDS WHAT` for each beginning.
"""

import bisect
import collections
import datetime
import json
import statistics
import sys

POD = "authentication.kubernetes.io/pod-name"  # of the token, which is bound to a pod
PATIENCE = 30  # seconds: longer than anything here takes, on a busy machine too

Write = collections.namedtuple("Write", "came done pod")


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def read_log(path):
    """Of each namespace, the times of changes by users, and the operator's writes."""
    changes, writes = collections.defaultdict(list), collections.defaultdict(list)
    with open(path, encoding="utf-8") as f:
        entries = [json.loads(line) for line in f if '"resource":"configmaps"' in line]
    for entry in entries:
        about, user = entry["objectRef"], entry["user"]
        if entry.get("responseStatus", {}).get("code") not in (200, 201):
            continue
        came, done = seconds(entry["requestReceivedTimestamp"]), seconds(entry["stageTimestamp"])
        if entry["verb"] == "patch" and about.get("name") == "settings" and user["username"] == "admin":
            changes[about["namespace"]].append(came)
        elif entry["verb"] in ("create", "update") and POD in user.get("extra", {}):
            if about.get("name", "report") == "report":
                writes[about["namespace"]].append(Write(came, done, user["extra"][POD][0]))
    return {k: sorted(v) for k, v in changes.items()}, {k: sorted(v) for k, v in writes.items()}


def is_twice(writes, ends):
    """Whether a pod wrote before the last one had ended, or one wrote again in the same phase."""
    phase, been = 0, []
    for last, write in zip([None, *writes], writes):
        while phase < len(ends) and write.came >= ends[phase]:
            phase, been = phase + 1, been[-1:]
        if been and been[-1] == write.pod:
            continue
        if write.pod in been or last is not None and write.came < last.done:
            return f"{write.pod} at {write.came:.3f}, {last.pod} until {last.done:.3f}"
        been.append(write.pod)
    return None


def waits(changes, writes, begin, end):
    """Of each change in that time, when something was written next."""
    came = [write.came for write in writes]
    found = []
    for change in changes:
        following = bisect.bisect(came, change)
        if begin <= change < end and following < len(came):
            found.append(came[following] - change)
    return found


def main():
    log, pods, phases = sys.argv[1:]
    changes, writes = read_log(log)
    with open(pods, encoding="utf-8") as f:
        shard_of = dict(line.split() for line in f)
    with open(phases, encoding="utf-8") as f:
        phases = [(float(at), what.strip()) for at, _, what in (line.partition(" ") for line in f)]
    begins, ends = [at for at, _ in phases], [at for at, _ in phases[1:]] + [float("inf")]

    print("\n  NAMESPACE     WORKED ON BY")
    for space in sorted(changes):
        owners = []
        for write in writes.get(space, []):
            owner = shard_of[write.pod].removesuffix("-normal").replace("<none>", "no shard")
            owners += [owner] if owners[-1:] != [owner] else []
        print(f"  {space:<14}{', '.join(owners)}")
    print()
    print(f"  {'':<34}CHANGES   SEEN AFTER (MEDIAN)   LONGEST")
    longest = 0
    for (begin, what), end in zip(phases, ends):
        found = [w for space in changes for w in waits(changes[space], writes.get(space, []), begin, end)]
        found = found or [0]
        longest = max(longest, *found)
        print(f"  {what:<34}{len(found):7}{statistics.median(found):18.3f} s{max(found):13.3f} s")
    print()

    wrong = [f"{space}: two at a time: {found}" for space, there in writes.items()
             if (found := is_twice(there, begins[1:]))]  # fmt: skip
    wrong += [f"{space}: nobody works on it" for space in changes if not writes.get(space)]
    if longest > PATIENCE:
        wrong.append(f"a namespace was unowned for {longest:.1f} s")
    for line in wrong:
        print("  WRONG  ", line)
    if not wrong:
        count = sum(map(len, writes.values()))
        print(f"  ok      no two pods worked on one of the {len(changes)} namespaces at a time, by {count} writes")
        print(f"  ok      none was unowned for longer than {longest:.2f} s")
    return 1 if wrong else 0


sys.exit(main())
