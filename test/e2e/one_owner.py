# SPDX-License-Identifier: Apache-2.0
"""Pods that say what they show while they work, and a judge of whether two shards ever showed the same.

A localproxy tells which generation of its rules it enforces. What it shows under one it shows for as
long as it enforces that: so a list says what it showed from the first moment at which it was seen to
enforce the generation to the last one. Two shards whose times overlap both showed it for certain.
"""

import bisect
import collections
import dataclasses
import http.client
import json
import signal
import time

import harness
import labels_test
import mesh
import wire
import working_pod

KEY = working_pod.KEY
POD = "statefulset.kubernetes.io/pod-name"
SOON = 60  # seconds in which a shard works on what it has, on however busy a machine
LIST = "/api/v1/configmaps?labelSelector=owned"
MERGE = [("Content-Type", "application/merge-patch+json")]


@dataclasses.dataclass
class Span:
    """For so long a pod enforced a generation, as far as that was seen."""

    pod: str
    shard: str
    generation: int
    first: float
    last: float
    spaces: set  # that it showed


class Looker(working_pod.Worker):
    """An operator without a cache that notes what it is shown."""

    def __init__(self, pod):
        self.pod = pod
        self.spans = {}  # by generation
        self.newest = (0, set())  # when it last asked, and what that showed
        super().__init__(pod.proxy)

    def run(self):
        while not self.over.wait(0.03):
            try:
                self.work()
            except (OSError, wire.Cut, ValueError, http.client.HTTPException):
                pass  # it ends, or has no rules

    def generation(self):
        """With its checksum; None: it has no rules."""
        enforced = self.proxy.control()[1].get("enforced")
        return enforced and (enforced["generation"], enforced["checksum"])

    def work(self):
        before = self.generation()
        asked = time.time()
        answer = self.proxy.fetch(LIST)
        answered = time.time()
        if answer.status != 200 or not answer.complete:
            return
        found = {item["metadata"]["namespace"] for item in json.loads(answer.body)["items"]}
        if before is not None and before == self.generation():
            self.note(before, asked, answered, found)
        self.newest = asked, found
        for space in found:
            body = json.dumps({"data": {"at": str(time.time())}}).encode()
            if not self.over.is_set():
                self.proxy.fetch(f"/api/v1/namespaces/{space}/configmaps/object", "PATCH", MERGE, body)

    def note(self, generation, asked, answered, found):
        name, shard = self.pod.name, self.pod.of
        span = self.spans.setdefault(
            generation, Span(name, shard, generation[0], asked, answered, set())
        )
        span.last = answered
        span.spaces |= found


class Pod(working_pod.WorkingPod):
    """`account`: its service account."""

    account = "default"

    def __init__(self, case, *args, **more):
        super().__init__(case, *args, **more)
        self.lookers = []  # one after the other
        self.cut = False  # its rulesync is stopped
        self.finalizers = ["cmesh.test/works"]
        case.owners.append(self)
        case.addCleanup(self.finalize)

    def body(self):
        thing = super().body()
        thing["spec"]["serviceAccountName"] = self.account
        return thing

    def start(self):
        mesh.Pod.start(self)
        self.look_on()
        return self

    def look_on(self):
        self.worker = Looker(self)
        self.lookers.append(self.worker)

    def stop(self):
        for process in filter(None, (self.proxy, self.sync)):
            process.signal(signal.SIGCONT)
        super().stop()

    def restart_proxy(self, how):
        """As a container that is killed: with the rules that were kept."""
        self.proxy.signal(signal.SIGCONT)
        self.stop_proxy(how)
        self.worker.end()
        self.start_proxy()
        self.look_on()

    def restart_sync(self):
        self.sync.kill()
        self.start_sync()

    def shows(self, space, since):
        """It was asked since then."""
        if self.worker is None:
            return False
        asked, found = self.worker.newest
        return asked > since and space in found

    def leave(self):
        """Its object is being deleted while it works on."""
        self.delete(grace=30)

    def end(self):
        """It has ended, and then its object is gone."""
        self.stop()
        self.delete()
        self.finalize()


def spans_of(pods):
    """What is shown in each namespace, by the time at which it was first."""
    found = collections.defaultdict(list)
    for looker in [looker for pod in pods for looker in pod.lookers]:
        for span in list(looker.spans.values()):
            for space in list(span.spaces):
                found[space].append(span)
    for spans in found.values():
        spans.sort(key=lambda span: span.first)
    return found


class Judge:
    """Says where two shards showed the same, or one wrote to what another showed."""

    def __init__(self, pods, writes):
        self.pods = pods
        self.writes = writes
        self.since = 0.0  # writes that came earlier are judged

    def violations(self):
        spans = spans_of(self.pods)
        found = [self.shown(space, there) for space, there in spans.items()]
        until = time.time() - 1
        for write in self.writes.all():
            if self.since <= write.came and write.ok():
                found.append(self.written(write, spans[write.namespace]))
        self.since = until
        return [violation for violation in found if violation is not None]

    @staticmethod
    def shown(space, spans):
        newest = {}  # of each shard the span that ended last
        for span in spans:
            for other in newest.values():
                if other.shard != span.shard and other.last > span.first:
                    return f"{space} was shown by two at {span.first:.3f}:\n  {other}\n  {span}"
            if span.shard not in newest or newest[span.shard].last < span.last:
                newest[span.shard] = span
        return None

    @staticmethod
    def written(write, spans):
        until = bisect.bisect(spans, write.came, key=lambda span: span.first)
        for span in spans[:until]:
            if span.shard != write.shard and span.first < write.came < span.last:
                return f"{write.namespace} was written to while another showed it:\n  {write}\n  {span}"
        return None


class Case(mesh.MeshTestCase):
    """Namespaces with an object each, and pods that say what they show."""

    SPACES = 2

    def setUp(self):
        super().setUp()
        self.owners = []
        self.users = {}
        self.serial = 0
        self.writes = working_pod.Writes(self, self.users)
        self.judge = Judge(self.owners, self.writes)
        self.spaces = [self.make_space(i) for i in range(self.SPACES)]

    def make_space(self, number):
        name = harness.make_namespace(self.cluster, f"owned-{number}", self.addCleanup)
        labels = {"owned": "yes", KEY: name, harness.HASH_LABEL: labels_test.hash_of(name)}
        thing = {"metadata": {"name": "object", "labels": labels}}
        self.cluster.json(f"/api/v1/namespaces/{name}/configmaps", "POST", thing)
        return name

    # ---- shards ----

    @staticmethod
    def limit(spaces):
        return mesh.limit(mesh.is_in(KEY, *(sorted(spaces) or ["none"])))

    def plain(self, name, spaces, lock="lead", slot=None):
        """A shard of the pods of a slot."""
        more = {"controller": {"leaderElectionName": lock}} if lock else {}
        return mesh.config(name, slot or name, self.limit(spaces), **more)

    # pylint: disable-next=too-many-arguments
    def root(self, name, spaces, lock="lead", size=2, slot=None, prefix=None, canary=()):
        """The same share for the children of a root: one pod each. `canary`: what its first pod has."""
        thing = self.plain(name, spaces, lock)
        auto = {"shardingSize": size, "everyShardReplicas": 1}
        root = {"prefix": prefix or name, "targetStatefulSet": slot or name, "auto": auto}
        if canary:
            root["canary"] = {"replicas": 1, "inNamespaces": sorted(canary)}
        root["resourceSelector"] = thing["spec"].pop("limits")
        del thing["spec"]["selector"]
        thing["spec"]["root"] = root
        return thing

    def exists(self, name):
        return self.cluster.fetch(f"{self.configs}/{name}").status == 200

    def wait_exists(self, name, there=True):
        what = f"{name} is {'there' if there else 'gone'}"
        harness.wait_for(lambda: self.exists(name) == there, what, SOON)

    def wait_waits(self, name, who):
        """It does not get all that its spec says because of that one."""

        def look():
            found = mesh.condition(self.get(name), "Published")
            return found.get("reason") == "WaitingForHandover" and who in found["message"]

        harness.wait_for(look, f"{name} waits for {who}", SOON, 0.05)

    # ---- pods ----

    # pylint: disable-next=too-many-arguments
    def new_pod(self, of, slot=None, ordinal=0, tells=False, reachable=True, account="default"):
        """A running pod of a slot, which was injected for a shard."""
        self.serial += 1
        slot = slot or of
        labels = {"shard": slot, POD: f"{slot}-{ordinal}"}
        pod = Pod(self, f"{slot}-{ordinal}.{self.serial}", of, labels, tells, reachable)
        pod.account = account
        self.users[pod.user] = of
        return pod.start()

    def wait_works(self, spaces, *pods, timeout=SOON):
        """Each of these is shown to one of the pods."""
        for space in spaces:
            self.wait_shown(space, lambda pod: pod in pods, timeout)

    def wait_shown(self, space, is_right, timeout=SOON):
        since = time.time()
        harness.wait_for(
            lambda: any(is_right(pod) and pod.shows(space, since) for pod in self.owners),
            f"{space} is worked on",
            timeout,
        )

    def check_one_owner(self):
        found = self.judge.violations()
        self.assertFalse(found, "\n".join([f"{len(found)} violations:", *found[:5]]))
