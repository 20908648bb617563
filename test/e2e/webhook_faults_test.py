# SPDX-License-Identifier: Apache-2.0
"""Routed webhooks while everything around them changes and fails, under load. These take minutes, and
print figures: they are run by hand, the short ones of webhook_routing_test by each change.
"""

import collections
import os
import random
import signal
import subprocess
import threading
import time

import harness
import mesh
import webhook_pods
import webhook_routing_test as routing
import wire
from operator_test import report
from root_test import POD
from webhook_case import KINDS, hash_of
from webhook_pods import NAMESPACE, PORT, Load, WebhookPod, percentiles, port_name, write

SOON = 60


class Every(threading.Thread):
    """Does something again and again until the end; what goes wrong is raised there."""

    def __init__(self, case, seconds, job):
        super().__init__(daemon=True)
        self.seconds, self.job = seconds, job
        self.over = threading.Event()
        self.count, self.error = 0, None
        case.addCleanup(self.over.set)
        self.start()

    def run(self):
        while not self.over.wait(self.seconds) and self.error is None:
            try:
                self.job()
                self.count += 1
            except Exception as error:  # pylint: disable=broad-except
                self.error = error

    def end(self):
        self.over.set()
        self.join(60)
        if self.error is not None:
            raise AssertionError(repr(self.error))
        return self.count


class SecondServer(harness.Cluster):
    """Another API server on the same etcd, which lags while it is stopped."""

    def __init__(self, case):
        first = case.cluster
        super().__init__(first.directory)
        self.address = f"127.0.0.1:{harness.free_port()}"
        with open(os.path.join(self.directory, "kube-apiserver.pid"), encoding="ascii") as f:
            pid = f.read().split()[0]
        instead = {
            "--secure-port": self.address.rpartition(":")[2],
            "--audit-log-path": case.path("audit-of-second.log"),
        }
        # In the first one's namespace of mounts: the modern one finds Services in a file of hosts.
        command = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--mount=/proc/{pid}/ns/mnt",
                   f"--wd={self.directory}"]  # fmt: skip
        with open(os.path.join(self.directory, "kube-apiserver.args"), encoding="utf-8") as f:
            for argument in filter(None, f.read().split("\0")):
                name = argument.partition("=")[0]
                command.append(f"{name}={instead[name]}" if name in instead else argument)
        with open(case.path("second.log"), "wb") as log:
            self.server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory
            )
        case.addCleanup(self.stop)  # asking it
        case.addCleanup(harness.end_process, self.server)
        case.addCleanup(self.server.send_signal, signal.SIGCONT)
        harness.wait_for(self.serves, "the second API server is ready")

    def serves(self):
        try:
            return self.fetch("/readyz").status == 200
        except (OSError, wire.Cut):
            return False


class PairCase(routing.RoutingCase):
    """Two shards of two pods, by names."""

    hold = {}

    def setUp(self):
        super().setUp()
        self.names = {"blue": ["team-1", "team-2"], "green": ["team-3", "team-4"]}
        self.owners = {space: of for of, spaces in self.names.items() for space in spaces}
        for space in [*self.owners, "nobodys"]:
            self.make_space(space)
        self.replicas = {}
        for of, spaces in self.names.items():
            self.hand_shard(of, routing.by_name(*spaces), **self.hold)
            self.replicas[of] = self.start_shard(of, 2)
        self.original()

    def wait_all(self):
        self.wait_routed(*self.names)
        self.wait_settled(self.owners)

    def load(self, spaces=None, rate=50):
        self.since = time.time()
        return Load(self, spaces or [*self.owners, "nobodys"], rate)

    def may_ask(self):
        return {**{space: [of] for space, of in self.owners.items()}, "nobodys": None}

    def check(self, written, what):
        """All was done, and asked once, of those who have it."""
        self.check_once(written, self.may_ask())
        self.check_known(self.since, self.owners)
        report(f"{what}: {len(written)} creates, ms {percentiles(written)}")


    def check_asked(self, written, what):
        """All was done, and asked once, or twice while the label came or went."""
        counts = collections.Counter(review.key() for review in self.reviews())
        for w in written:
            self.assertEqual(201, w.status, w)
            for kind in ("validate", "default"):
                self.assertIn(counts[kind, "CREATE", "configmaps", w.namespace, w.name], (1, 2), (kind, w))
        twice = sum(count == 2 for count in counts.values())
        report(f"{what}: {len(written)} creates, {twice} reviews twice, ms {percentiles(written)}")


class FaultsTest(PairCase):
    def test_certificates(self):
        """Authority and certificate are replaced as cert-manager or a rotator does: first both
        authorities are trusted, then pods have the new certificate, then the old authority goes."""
        self.wait_all()
        load = self.load()
        late = []
        for _ in range(3):
            self.certificates.renew(keep=True)
            late.append(self.change_bundle())
            time.sleep(1)
            self.certificates.serve()
            time.sleep(1)
            self.certificates.bundle = webhook_pods.text_of(self.certificates.authority.certificate)
            late.append(self.change_bundle())
            time.sleep(1)
        self.check(load.end(), f"certificates: bundles followed within {max(late):.2f} s")
        self.assertLess(max(late), 2)

    def change_bundle(self):
        """How long until the entries have it."""
        bundle = self.certificates.encoded()
        began = time.time()
        for kind in KINDS:
            webhooks = self.cluster.json(self.path_of(kind))["webhooks"]
            for webhook in webhooks:
                webhook["clientConfig"]["caBundle"] = bundle
            self.api.merge(self.path_of(kind), {"webhooks": webhooks})

        def followed():
            entries = [entry for kind in KINDS for entry in self.entries(kind)]
            return all(entry["clientConfig"]["caBundle"] == bundle for entry in entries)

        harness.wait_for(followed, "the entries have the bundle")
        return time.time() - began

    def test_restarts(self):
        """Each pod is replaced, shard by shard, as a rolling update does."""
        self.wait_all()
        load = self.load()
        for of, pods in self.replicas.items():
            for pod in list(pods):
                pod.end()
                new = WebhookPod(self, pod.name, of)
                self.start([new])
                self.wait_endpoints(port_name(of), 2)
        self.check(load.end(), "rolling restart")

    def test_api_server(self):
        """It is stopped, and started again: what it answers is reviewed."""
        self.wait_all()
        load = self.load()
        for _ in range(2):
            time.sleep(2)
            self.cluster.stop_apiserver()
            self.cluster.start_apiserver()
            harness.wait_for(lambda: self.lead.ready(), "the manager is ready")
        time.sleep(3)
        written = load.end()
        done = [w for w in written if w.status != 0]
        self.assertFalse([w for w in done if "webhook" in w.said])
        done = [w for w in done if w.status == 201]
        self.check(done, f"API server restarted, {len(written) - len(done)} without an answer")

    def check_answered(self, written, what):
        """Of those that an API server failed to answer, by its end or a long pause, nothing is known."""
        answered = [w for w in written if w.status == 201]
        self.check_asked(answered, f"{what}, {len(written) - len(answered)} not answered")

    def test_api_server_in_between(self):
        """It is restarted in the middle of opting in and out: what it answers is reviewed."""
        self.wait_all()
        choice = random.Random(harness.seed())
        for job, done in 2 * ((self.opt_out, self.wait_widened), (self.original, self.wait_all)):
            load = self.load()
            job()
            time.sleep(choice.uniform(0, 7))
            self.cluster.stop_apiserver()
            self.cluster.start_apiserver()
            done()
            self.check_answered(load.end(), "API server restarted")

    def test_two_api_servers(self):
        """One of them lags for 3 s while a namespace moves and while the label comes and goes: each
        review is asked, of the new owner as soon as that one has heard of it."""
        self.wait_all()
        second = SecondServer(self)
        steps = ((self.swap, self.wait_swapped), (self.opt_out, self.wait_widened),
                 (self.original, self.wait_swapped))  # fmt: skip
        for job, done in steps:
            loads = [self.load(rate=30), Load(self, [*self.owners, "nobodys"], 30, 20, second)]
            time.sleep(1)
            second.server.send_signal(signal.SIGSTOP)
            job()
            time.sleep(3)
            second.server.send_signal(signal.SIGCONT)
            done()
            time.sleep(2)
            self.check_asked(loads[0].end(), job.__name__)
            self.check_answered(loads[1].end(), "of the one that lags")
        since = time.time()
        for number in range(20):
            write(second, "CREATE", "team-2", f"late-{number}")
        asked = {r.of for r in self.reviews() if r.at > since and r.name.startswith("late-")}
        self.assertEqual({"green"}, asked)

    def swap(self):
        self.hand_shard("blue", routing.by_name("team-1"))
        self.hand_shard("green", routing.by_name("team-2", "team-3", "team-4"))

    def wait_swapped(self):
        self.wait_routed(*self.names)
        self.wait_settled({**self.owners, "team-2": "green"})

    def test_service_is_applied(self):
        """Every second, by its owner."""
        self.wait_all()
        load = self.load()
        ours = Every(self, 1, lambda: self.api.apply(self.service_object()))
        time.sleep(12)
        self.check(load.end(), f"Service applied {ours.end()} times")

    def test_configuration_is_applied(self):
        """Every second, without a namespaceSelector in the manifest."""
        self.wait_all()
        load = self.load()
        ours = Every(self, 1, self.original)
        time.sleep(12)
        self.check(load.end(), f"configurations applied {ours.end()} times")

    def test_manager_dies(self):
        """In each step of opting in and out; reviews are asked at least once."""
        self.wait_all()
        self.opt_out()
        self.wait_widened()
        load = self.load()
        choice = random.Random(harness.seed())
        for _ in range(harness.reloads(4)):
            for job, done in ((self.original, self.wait_all), (self.opt_out, self.wait_widened)):
                job()
                time.sleep(choice.uniform(0, 11))
                self.lead.kill()
                self.lead = self.manager()
                done()
        self.check_asked(load.end(), "manager killed")

    def test_contested(self):
        """A writer resets the namespaceSelectors all the time: after ten times the manager lets go, until
        the label is put there again. No review is lost."""
        self.wait_all()
        load = self.load()
        again = Every(self, 0.3, self.widen)
        for of in self.names:
            self.wait_condition(of, "WebhookRouted", "False", "Contested")
        harness.wait_for(lambda: not any(map(self.entries, KINDS)), "the entries go")
        time.sleep(1)
        count = again.end()
        self.opt_out()
        time.sleep(1)
        self.original()
        self.wait_all()
        self.check_asked(load.end(), f"contested after at most {count} times")

    def widen(self):
        for kind in KINDS:
            webhooks = self.cluster.json(self.path_of(kind))["webhooks"]
            for webhook in webhooks:
                webhook["namespaceSelector"] = {}
            self.api.merge(self.path_of(kind), {"webhooks": webhooks})

    def test_latency(self):
        """The same load without routing, and with it."""
        self.wait_all()
        self.opt_out()
        self.wait_widened()
        for round_ in range(2):
            load = self.load()
            time.sleep(15)
            report(f"round {round_} without: ms {percentiles(load.end())}")
            self.original()
            self.wait_all()
            load = self.load()
            time.sleep(15)
            report(f"round {round_} with: ms {percentiles(load.end())}")
            self.opt_out()
            self.wait_widened()


class AwayTest(PairCase):
    def lose(self, of):
        """All pods of a shard, at once."""
        for pod in self.replicas[of]:
            pod.operator.kill()
            pod.set_status(ready=False)
            pod.stop()
            pod.delete()
        self.wait_endpoints(port_name(of), 0)

    def lose_under_load(self, of):
        """What was written meanwhile, and since when it was lost."""
        self.wait_all()
        load = self.load()
        time.sleep(1)
        self.lose(of)
        lost = time.time()
        time.sleep(5)
        return load.end(), lost

    def test_fail(self):
        """Writes in the shard's namespaces are refused, at once, and no others; opt-out ends that."""
        written, lost = self.lose_under_load("green")
        refused = [w for w in written if w.status != 201]
        self.assertEqual({"team-3", "team-4"}, {w.namespace for w in refused})
        self.assertEqual({500}, {w.status for w in refused})
        later = [w for w in written if w.came > lost and w.namespace in self.names["green"]]
        self.assertFalse([w for w in later if w.status == 201])
        self.check([w for w in written if w.status == 201], f"Fail: refused {len(refused)}")
        report(f"refused in ms {percentiles(refused)}")
        self.opt_out()
        self.wait_widened()
        harness.wait_for(
            lambda: write(self.cluster, "CREATE", "team-3", f"after-{time.time()}").status == 201,
            "any pod is asked again",
        )

    def test_opt_out_and_uninstall(self):
        """The label goes, then manager and routes: no review is lost."""
        self.wait_all()
        load = self.load()
        time.sleep(1)
        self.opt_out()
        self.wait_widened()
        time.sleep(1)
        clean = time.time()
        self.lead.kill()
        for kind in KINDS:
            self.api.delete(self.path_of(kind, routing.ROUTES))
        time.sleep(2)
        written = load.end()
        self.check_asked(written, "opt-out and uninstall")
        self.check_once([w for w in written if w.came > clean], dict.fromkeys(self.may_ask()))

    def test_originals_go(self):
        """Entries go with the operator's configuration, within two seconds."""
        self.wait_all()
        began = time.time()
        for kind in KINDS:
            self.api.delete(self.path_of(kind))
        harness.wait_for(lambda: not any(map(self.entries, KINDS)), "the entries go", interval=0.02)
        took = time.time() - began
        report(f"entries are gone after {took:.2f} s")
        self.assertLess(took, 2)
        self.assertEqual(201, write(self.cluster, "CREATE", "team-1", "free").status)


class IgnoreTest(AwayTest):
    policy = "Ignore"
    test_opt_out_and_uninstall = test_originals_go = None

    def test_fail(self):
        """What the shard should have reviewed is not reviewed."""
        written, lost = self.lose_under_load("green")
        self.assertEqual({201}, {w.status for w in written})
        later = [w for w in written if w.came > lost and w.namespace in self.names["green"]]
        reviewed = {r.name for r in self.reviews()}
        self.assertFalse([w for w in later if w.name in reviewed])
        # Of what is nobody's any pod is asked, and those that died may have been.
        others = [w for w in written if w.namespace in self.names["blue"]]
        self.check(others, f"Ignore: {len(later)} not reviewed")


class RootTest(routing.RoutingCase):
    """Shards of a root, whose pods are those of a StatefulSet that is played."""

    handover = {}

    def setUp(self):
        super().setUp()
        self.teams = [routing.spaces_of({str(i)}, "team", 1)[0] for i in range(0, 32, 3)]
        for space in self.teams:
            self.make_space(space)
        self.pods = {}

    def root(self, size, **root):
        auto = {"shardingSize": size, "everyShardReplicas": 1, **root.pop("auto", {})}
        limit = {"relateResources": [{"apiGroups": [""], "resources": ["namespaces", "configmaps"]}]}
        spec = {"prefix": "op", "targetStatefulSet": NAMESPACE, "resourceSelector": [limit], "auto": auto}
        spec = {"root": {**spec, **root}, "controller": {"leaderElectionName": NAMESPACE},
                "webhook": {"port": PORT, **self.handover}}  # fmt: skip
        thing = {"apiVersion": f"{mesh.GROUP}/v1alpha1", "kind": "ShardingConfig"}
        self.apply({**thing, "metadata": {"name": "root"}, "spec": spec})

    @staticmethod
    def child(number):
        return f"op-{number}-normal" if number else "op-0-canary"

    def start_pods(self, pairs):
        """(ordinal, child)"""
        pods = []
        for ordinal, number in pairs:
            of, name = self.child(number), f"{NAMESPACE}-{ordinal}"
            path = f"{self.configs}/{of}"
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 200, f"{of} is there", SOON)
            pods.append(WebhookPod(self, name, of, labels={POD: name}))
            self.pods[ordinal] = pods[-1]
        self.start(pods)

    def owners(self):
        """By what the children have."""
        found = {}
        for child in self.cluster.json(self.configs)["items"]:
            for space in self.teams:
                if int(hash_of(space)) in mesh.buckets_of(child):
                    found.setdefault(space, child["metadata"]["name"])
        return found

    def settle(self, chosen=()):
        self.wait_condition("root", "Ready", "True")
        self.wait_settled({**self.owners(), **dict.fromkeys(chosen, self.child(0))})

    def judge(self, load, since, refused=lambda w: False):
        written = load.end()
        away = [w for w in written if w.status == 500 and refused(w)]
        self.check_once([w for w in written if w not in away], dict.fromkeys(self.teams))
        (self.check_known if self.handover else self.check_had)(since, self.teams)
        unknown = sum(not r.known for r in self.reviews() if r.namespace in self.teams and r.at > since)
        told = f"{len(away)} refused, {unknown} reviews by the old owner, ms {percentiles(written)}"
        report(f"{self.id()}: {len(written)} creates, {told}")

    def begin(self, size, pairs, **root):
        self.root(size, **root)
        self.start_pods(pairs)
        self.original()
        self.wait_routed("root")

    def held(self, w):
        return bool(self.handover) and "failed calling webhook" in w.said

    def test_sizes(self):
        """2, 5, 2."""
        self.begin(2, [(0, 1), (1, 2)])
        self.settle()
        since = time.time()
        load = Load(self, self.teams)
        self.root(5)
        self.start_pods([(i - 1, i) for i in (3, 4, 5)])
        self.settle()
        report(f"2 to 5 after {time.time() - since:.1f} s: {self.owners()}")
        again = time.time()
        self.root(2)
        two = {self.child(1), self.child(2)}
        harness.wait_for(lambda: set(self.owners().values()) == two, "it shrinks", SOON)
        self.wait_settled(self.owners())
        report(f"5 to 2 after {time.time() - again:.1f} s")
        for ordinal in (2, 3, 4):
            self.pods.pop(ordinal).end()
        self.settle()
        self.judge(load, since, self.held)

    def test_takeover(self):
        """The pod of a shard dies: its namespaces are refused until another has them."""
        self.begin(2, [(0, 1), (1, 2)], auto={"takeover": {"afterSeconds": 5}})
        self.settle()
        lost = [space for space, of in self.owners().items() if of == self.child(2)]
        since = time.time()
        load = Load(self, self.teams)
        dead = self.pods.pop(1)
        dead.operator.kill()
        dead.set_status(ready=False)
        dead.stop()
        dead.delete()
        self.wait_settled(dict.fromkeys(self.teams, self.child(1)))
        back = time.time()
        report(f"taken over after {back - since:.1f} s")
        self.start_pods([(1, 2)])
        self.settle()
        report(f"given back after {time.time() - back:.1f} s")
        self.judge(load, since, lambda w: w.namespace in lost and w.came < back or self.held(w))

    def test_canary(self):
        """By names, by hashes, by both."""
        one, other, third = self.teams[:3]
        canary = {"replicas": 1, "inNamespaces": [one]}
        self.begin(2, [(0, 0), (1, 1), (2, 2)], canary=canary)
        self.settle([one])
        since = time.time()
        load = Load(self, self.teams)
        lists = (([one, other], []), ([], [third]), ([one], [third, other]), ([other], [one]))
        for names, hashed in lists:
            hashes = sorted({hash_of(space) for space in hashed})
            canary = {"replicas": 1, "inNamespaces": names, "inShardHash": hashes}
            self.root(2, canary={key: value for key, value in canary.items() if value})
            chosen = [s for s in self.teams if s in names or hash_of(s) in hashes]
            self.settle(chosen)
        self.judge(load, since, self.held)


class RootHoldTest(RootTest):
    handover = {"duringHandover": "Hold"}


class LabelsTest(routing.RoutingCase):
    """Shards by labels of namespaces, which users change."""

    handover = {}

    def test_relabelled(self):
        for of in ("blue", "green"):
            limit = mesh.limit({}, ("configmaps", "namespaces"))
            limit["namespaceSelector"] = {"matchLabels": {"tier": of}}
            del limit["selector"]
            webhook = {"port": PORT, **self.handover}
            lock = {"leaderElectionName": NAMESPACE}
            self.apply(mesh.config(of, of, limit, webhook=webhook, controller=lock))
        owners = {"team-1": "blue", "team-2": "blue", "team-3": "green"}
        for space, of in owners.items():
            self.make_space(space)
            self.api.label(f"/api/v1/namespaces/{space}", {"tier": of})
        for of in ("blue", "green"):
            self.start_shard(of)
        self.original()
        self.wait_routed("blue", "green")
        self.wait_settled(owners)
        since = time.time()
        load = Load(self, list(owners))
        for of in ("green", "blue", "green", "blue"):
            began = time.time()
            self.api.label("/api/v1/namespaces/team-2", {"tier": of})
            self.wait_settled({**owners, "team-2": of})
            report(f"relabelled: after {time.time() - began:.1f} s")
        written = load.end()
        refused = [w for w in written if w.status == 500 and self.handover]
        self.check_once([w for w in written if w not in refused], dict.fromkeys(owners))
        (self.check_known if self.handover else self.check_had)(since, owners)
        report(f"relabelled: {len(written)} creates, {len(refused)} refused, ms {percentiles(written)}")


class LabelsHoldTest(LabelsTest):
    handover = {"duringHandover": "Hold"}


if __name__ == "__main__":
    harness.main()
