# SPDX-License-Identifier: Apache-2.0
"""What an API server's audit log tells of an operator that runs as shards: which pod of it wrote
where and when, and whether a namespace that moves was ever two's, or nobody's for too long.

Times are seconds since 1970.
"""

import calendar
import dataclasses
import glob
import json
import os
import time

WRITES = ("create", "update", "patch", "delete", "deletecollection")
UNDER_WAY = 0.3  # that a write may need from localproxy to the API server's clock
NOBODYS = 30  # that a namespace may be nobody's, however busy the machine is: usually one second


def seconds(stamp):
    """Of an RFC 3339 time with microseconds, as the audit log has it."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    at = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return at + float("0." + (fraction or "0"))


def arrival(entry):
    return seconds(entry["requestReceivedTimestamp"])


def entries(path, mentions=""):
    """Those whose line has a text in it, in the order in which the requests came. The log may have
    been rotated."""
    found = []
    for part in glob.glob(path.removesuffix(".log") + "*.log"):
        with open(part, encoding="utf-8") as f:
            # The last line may still be being written.
            found += (json.loads(line) for line in f if mentions in line and line.endswith("}\n"))
    return sorted(found, key=lambda entry: entry["requestReceivedTimestamp"])


class Log:
    """The same of a log that grows, in the order in which it was written: only what is new is read."""

    def __init__(self, path, mentions=""):
        self.path = path
        self.mentions = mentions
        self.read = {}  # how much of each file, by its number: rotation gives it another name
        self.found = []

    def entries(self):
        for part in glob.glob(self.path.removesuffix(".log") + "*.log"):
            with open(part, encoding="utf-8") as f:
                number = os.fstat(f.fileno()).st_ino
                f.seek(self.read.get(number, 0))
                while (line := f.readline()).endswith("}\n"):
                    self.read[number] = f.tell()
                    if self.mentions in line:
                        self.found.append(json.loads(line))
        return self.found


@dataclasses.dataclass
class Write:
    """A request to change something in a namespace, whatever came of it."""

    pod: str
    shard: str
    namespace: str
    what: str
    code: int
    came: float
    done: float

    def ok(self):
        return 200 <= self.code < 300


def write_of(entry, pod, shard):
    return Write(
        pod,
        shard,
        entry["objectRef"]["namespace"],
        f"{entry['verb']} {entry['objectRef']['resource']}",
        entry["responseStatus"].get("code", 0),
        arrival(entry),
        seconds(entry["stageTimestamp"]),
    )


@dataclasses.dataclass
class Move:
    """A namespace goes from one shard to another."""

    namespace: str
    loser: str
    gainer: str
    begun: float  # before it was taken away
    lost: float  # it was seen that all pods of the loser had confirmed
    given: float  # before it was given
    enforced: float  # it was seen that all pods of the gainer had confirmed

    def propagation(self):
        """How long nobody had it, as far as one can see from outside."""
        return self.enforced - self.lost


def check_soon(case, writes, shard, namespace, since, until, own_work, told):
    """The shard wrote in a namespace soon after that was its own: as soon as the machine and the
    operator's other work allowed, which is judged by how much of that it did before."""
    elsewhere = [
        write
        for write in writes
        if write.shard == shard and write.ok() and write.namespace != namespace
        and since < write.came < until
    ]  # fmt: skip
    case.assertLess(len(elsewhere), own_work, "nobody's for too long: " + told)
    case.assertLess(until, since + NOBODYS, "nobody's for too long: " + told)


class Judge:
    """Of what was written, for a test case that fails when it should not have been."""

    def __init__(self, case, writes):
        self.case = case
        self.writes = sorted(writes, key=lambda write: write.came)

    def check_owned(self, owners):
        """In these namespaces (of which each has the name of its shard) nobody else ever wrote."""
        for namespace, shard in owners.items():
            there = [write for write in self.writes if write.namespace == namespace]
            self.case.assertTrue(any(map(Write.ok, there)), f"nobody wrote in {namespace}")
            for write in there:
                self.case.assertEqual(shard, write.shard, write)

    def check_moves(self, moves, own_work=None):
        """Of one namespace, one after the other, from the first write to the last: it is written by
        its shard alone, by the next one when the last one has ended for good, and soon: from when
        rules are enforced it writes less than `own_work` times elsewhere before.

        Returns how long nobody wrote there, for each move.
        """
        there = [write for write in self.writes if write.namespace == moves[0].namespace]
        for write in there:
            if write.came < moves[0].begun:
                self.case.assertEqual(moves[0].loser, write.shard, write)
        ends = [move.begun for move in moves[1:]] + [float("inf")]
        return [
            self.check_move(move, [w for w in there if move.begun <= w.came < end], own_work)
            for move, end in zip(moves, ends)
        ]

    def check_move(self, move, there, own_work):
        case, told = self.case, describe(move, there)
        case.assertLessEqual({write.shard for write in there}, {move.loser, move.gainer}, told)
        losers = [write for write in there if write.shard == move.loser]
        gainers = [write for write in there if write.shard == move.gainer]
        case.assertTrue(any(map(Write.ok, gainers)), "nobody works on it: " + told)
        first = gainers[0].came
        last = max((write.done for write in losers), default=move.begun)
        case.assertLess(last, first, "two shards wrote at the same time: " + told)
        for write in losers:
            late = "the loser wrote although it had confirmed: "
            case.assertLess(write.came, move.lost + UNDER_WAY, late + told)
        case.assertGreater(first, move.given, "the gainer wrote before it was given: " + told)
        works = next(filter(Write.ok, gainers)).came
        if own_work is not None:
            check_soon(case, self.writes, move.gainer, move.namespace, move.enforced, works,
                       own_work, told)  # fmt: skip
        return works - last


@dataclasses.dataclass
class Step:
    """Something that is done to shards, between two moments at which all is settled."""

    begun: float
    what: str
    planned: dict  # namespace -> its shards in the order in which it is to have them; first the old one


def judge_steps(case, steps, writes):
    """In each step what is written in a namespace is written by its old shard, then by its next ones,
    in their order, and each only when the last one had ended.

    Returns how long nobody wrote, for each change of the shard.
    """
    gaps = []
    ends = [step.begun for step in steps[1:]] + [float("inf")]
    ordered = sorted((write for write in writes if write.ok()), key=lambda write: write.came)
    for step, end in zip(steps, ends):
        period = [write for write in ordered if step.begun <= write.came < end]
        for namespace in step.planned:
            there = [write for write in period if write.namespace == namespace]
            gaps += judge_step(case, step, namespace, there)
    return gaps


def judge_step(case, step, namespace, period):
    planned, at, last, gaps = step.planned[namespace], 0, None, []
    for write in period:
        told = f"{step.what}: {namespace} planned for {planned}: {write} after {last}"
        while planned[at] != write.shard:
            at += 1
            case.assertLess(at, len(planned), told)
        if last is not None and last.shard != write.shard:
            before = max(w.done for w in period if w.shard != write.shard and w.came <= write.came)
            case.assertLess(before, write.came, f"at the same time: {told}")
            gaps.append(write.came - before)
        last = write
    return gaps


def describe(move, writes):
    """What happened, by the time since it was taken away."""
    told = [(move.lost, f"{move.loser} has confirmed"), (move.given, "given")]
    told.append((move.enforced, f"{move.gainer} has confirmed"))
    for write in writes:
        told.append((write.came, f"{write.pod}: {write.what}: {write.code}"))
    lines = [f"{at - move.begun:8.3f} {text}" for at, text in sorted(told)]
    if len(lines) > 60:
        lines = [*lines[:50], f"({len(lines) - 50} more)"]
    return f"{move.namespace} from {move.loser} to {move.gainer}\n" + "\n".join(lines)
