#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole mesh on a real node, installed from k8s/: an operator that knows nothing of it runs as
two shards of two pods each, and follows ShardingConfigs that are edited under load."""

import collections
import dataclasses
import json
import os
import random
import re
import ssl
import subprocess
import threading
import time
import unittest
import urllib.parse

import audit
import harness
import images
import mesh
import node
import node_clients
import real_clients
import wire

EXAMPLE = os.path.join(harness.ROOT, "examples", "operator-go")
GROUP = "ctrlmesh.kusionstack.io"
SYSTEM = "cmesh-system"
MANAGER = "system:serviceaccount:cmesh-system:cmesh-manager"
OPERATOR = "report-operator"
SELECTOR = "app=" + OPERATOR
CONFIGS = f"/apis/{GROUP}/v1alpha1/namespaces/{OPERATOR}/shardingconfigs"
STATEFUL_SET = f"/apis/apps/v1/namespaces/{OPERATOR}/statefulsets/{OPERATOR}"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
LOCKS = LEASES + "?labelSelector=app.kubernetes.io/component!=localproxy"  # and not its status
ACCOUNT = f"system:serviceaccount:{OPERATOR}:{OPERATOR}"
RANGE_USER = 1000680000
# s that a namespace may be nobody's: 80, as docs/manager.md has it, or until a kubelet has taken away a
# pod whose containers have ended, which takes it a minute at times.
UNATTENDED = 180
LIMITED = ("namespaces", "configmaps")
MERGE = "application/merge-patch+json"
VERSION_PROBE = "watch=1&allowWatchBookmarks=true&timeoutSeconds=3"
TEAMS = [f"team-{i}" for i in range(1, 7)]
BLUE, GREEN = TEAMS[:3], TEAMS[3:]
MOVING = TEAMS[2]  # goes from blue to green and back
OTHERS = {team: "blue" if team in BLUE else "green" for team in TEAMS if team != MOVING}
PODS_OF = {"blue": (0, 1), "green": (2, 3)}
WORK = (("ConfigMap", "work"), ("ConfigMap", "report"))  # the churn's and the operator's
OPERATOR_KINDS = ("StatefulSet", "ControllerRevision", "Pod", "Lease")
EDITS = 20
SEED = harness.seed()
STEPS = harness.reloads(3)  # at random
OWN_WORK = 30  # pieces that the operator may do elsewhere before: as many as in two seconds


def shard_of(pod):
    number = int(pod.rpartition("-")[2])
    return next(shard for shard, numbers in PODS_OF.items() if number in numbers)


def told(times):
    """For people."""
    shares = ", ".join(f"p{share} {node.percentile(times, share):.2f} s" for share in (50, 99))
    return f"{shares}, max {max(times):.2f} s"


class Churn:
    """Gives work in all teams' namespaces, all the time, and notes how long each took to be done.

    The operator reports how many bytes the ConfigMaps of a namespace hold: each piece of work is one
    ConfigMap of another size.
    """

    def __init__(self, cluster):
        self.cluster = cluster
        self.given = {}  # namespace -> (bytes that the report should tell, when)
        self.slowest = 0.0
        self.count = 0
        self.number = 0
        self.error = None
        self.others = {team: self.bytes_besides(team) for team in TEAMS}
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def bytes_besides(self, team):
        maps = self.cluster.json(f"/api/v1/namespaces/{team}/configmaps")["items"]
        counted = (m for m in maps if m["metadata"]["name"] not in ("report", "work"))
        return sum(len(text.encode()) for m in counted for text in m.get("data", {}).values())

    def report(self, team):
        return self.cluster.json(f"/api/v1/namespaces/{team}/configmaps/report")["data"]

    def run(self):
        try:
            while not self.ending.wait(0.1):
                for team in TEAMS:
                    try:
                        self.step(team)
                    except (OSError, wire.Cut, AssertionError):
                        pass  # the API server is away
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def step(self, team):
        """The next piece once the last is done."""
        if team in self.given:
            wanted, since = self.given[team]
            if self.report(team)["bytes"] != wanted:
                return
            self.slowest = max(self.slowest, time.monotonic() - since)
            self.count += 1
            del self.given[team]  # of a write that is cut off it is not known whether it is done
        self.number += 1
        size = 1 + self.number % 97
        data = {"data": {"work": "x" * size}}
        path = f"/api/v1/namespaces/{team}/configmaps"
        if self.cluster.fetch(f"{path}/work").status == 404:
            self.cluster.json(path, "POST", {"metadata": {"name": "work"}, **data})
        else:
            self.cluster.json(f"{path}/work", "PATCH", data, MERGE)
        self.given[team] = (str(self.others[team] + size), time.monotonic())

    def check(self):
        if self.error:
            raise self.error

    def stop(self):
        self.ending.set()
        self.thread.join()
        self.check()


class Holders:
    """Who held each lock of the operator, one after the other: "" when it was given back."""

    def __init__(self, kubectl):
        self.held = collections.defaultdict(list)
        line = 'jsonpath={.metadata.name}={.spec.holderIdentity}{"\\n"}'
        args = ("--watch-only", "-l", "app.kubernetes.io/component!=localproxy", "-o", line)
        self.process = kubectl.popen("-n", OPERATOR, "get", "leases", *args)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            lock, _, holder = line.strip().partition("=")
            if self.held[lock][-1:] != [holder]:
                self.held[lock].append(holder)

    def stop(self):
        self.process.kill()
        self.thread.join()
        harness.end_process(self.process)


def real_kubeconfig(service):
    """Of a pod's own service account, with all that it needs in files."""
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    server = f"https://{service['spec']['clusterIP']}:{service['spec']['ports'][0]['port']}"
    cluster = {"server": server, "certificate-authority": f"{folder}/ca.crt"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "me", "user": {"tokenFile": f"{folder}/token"}}],
            "contexts": [{"name": "it", "context": {"cluster": "real", "user": "me"}}],
            "current-context": "it",
        }
    )


def files_rights(namespace):
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "view", "namespace": namespace},
        "roleRef": role,
        "subjects": [subject],
    }
    return [binding]


def files_pod(namespace, name, **security):
    """An operator that is no root, with a projected token, and a kubeconfig of mode 0400 where a group
    makes that readable."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt"}},
    ]
    mode = {"defaultMode": 0o400} if security else {}
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"shard": "files", f"{GROUP}/enable-proxy": "true"},
            "annotations": {
                f"{GROUP}/kubeconfig-volume": "real/config",
                f"{GROUP}/disable-fake-kubeconfig-arg": "true",  # sleep has no flags
            },
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, **security},
            "containers": [
                {
                    "name": "operator",
                    "image": node.TOOLS,
                    "command": ["sleep", "100000"],
                    "env": [{"name": "HOME", "value": "/tmp"}],
                    "volumeMounts": [
                        {"name": "sa", "mountPath": token},
                        {"name": "real", "mountPath": "/real"},
                    ],
                }
            ],
            "volumes": [
                {"name": "sa", "projected": {"sources": sources}},
                {"name": "real", "secret": {"secretName": "real", **mode}},
            ],
        },
    }


class MeshTest(node.TestCase):
    """Tests of one installation; each leaves it as it found it: in order."""

    examples = {}  # shard -> its ShardingConfig, as JSON
    names = {}  # address -> pod, of all that ever ran: no address is given twice that soon
    moves = []  # all that there were
    starts = []  # from when to when the API server was away, or not ready yet

    @classmethod
    def setUpClass(cls):
        cls.shared = node.cluster()
        cls.class_folder = cls.make_folder(cls.addClassCleanup)
        cls.load_operator()
        cls.shared.load_programs()
        cls.shared.load_tools()
        cls.install()
        cls.apply_example("shard-blue", "shard-green", "statefulset")

    @classmethod
    def load_operator(cls):
        path = os.path.join(cls.class_folder, "operator.tar")
        command = [os.path.join(EXAMPLE, "build"), "--image", path]
        if subprocess.run(command, check=False).returncode != 0:
            raise RuntimeError("examples/operator-go/build failed (output above)")
        cls.shared.load(path)

    @classmethod
    def admin(cls):
        return node.Kubectl(cls.class_folder)

    @classmethod
    def manifests(cls):
        """As for users of an API server that is as old."""
        return cls.admin()("kustomize", os.path.join(harness.ROOT, "k8s", "before-1.21"))

    @classmethod
    def install(cls):
        cls.apply_example("account", "teams")
        cls.addClassCleanup(cls.take_operator_away)
        cls.before = harness.wait_for(cls.everything, "namespaces are filled", 60, 0.5)
        cls.admin()("apply", "-f", "-", stdin=cls.manifests())
        cls.rolled_out()

        def trusted():
            path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/cmesh"
            webhooks = cls.shared.json(path)["webhooks"]
            return all(w["clientConfig"].get("caBundle") and w.get("rules") for w in webhooks)

        harness.wait_for(trusted, "the API server knows the manager", timeout=120)
        mesh.wait_webhooks(cls.shared)

    @classmethod
    def rolled_out(cls):
        """All managers are as their Deployment has it now."""
        args = ("-n", SYSTEM, "rollout", "status", "deployment/cmesh-manager", "--timeout=300s")
        code, out, err = cls.admin().run(*args, timeout=360)
        if code != 0:
            raise AssertionError(out + err)

    @classmethod
    def everything(cls):
        """All objects but those that come and go by themselves, or that the operator's work has
        made: the labels of each. None while namespaces are still filled or emptied, kinds go, or the
        kubelet has not made its Lease."""
        code, out, _ = cls.admin().run("api-resources", "--verbs=list", "-o", "name")
        kinds = [k for k in out.split() if not k.startswith(("events", "componentstatuses"))]
        if code == 0:
            code, out, _ = cls.admin().run("get", ",".join(kinds), "-A", "-o", "json")
        if code != 0:
            return None
        things = json.loads(out)["items"]
        found = {}
        for thing in things:
            kind, meta = thing["kind"], thing["metadata"]
            if kind == "Namespace" and "deletionTimestamp" in meta:
                return None
            place = meta.get("namespace", "")
            made = place == OPERATOR and kind in OPERATOR_KINDS
            if not made and (kind, meta["name"]) not in WORK:
                found[f"{kind} {place}/{meta['name']}"] = meta.get("labels") or {}
        filled = all(f"ConfigMap {team}/kube-root-ca.crt" in found for team in TEAMS)
        filled = filled and f"Lease kube-node-lease/{cls.shared.env['CLUSTER_NODE']}" in found
        accounts = [t for t in things if t["kind"] == "ServiceAccount"]
        tokens = cls.shared.behaves_as() >= (1, 24) or all(t.get("secrets") for t in accounts)
        return found if filled and tokens else None

    @classmethod
    def apply_example(cls, *names):
        files = [f"--filename={os.path.join(EXAMPLE, name)}.yaml" for name in names]
        cls.admin()("apply", *files)

    @classmethod
    def take_operator_away(cls):
        arguments = ("--ignore-not-found", "--wait=false")
        cls.admin()("delete", "namespace", OPERATOR, *TEAMS, *arguments)
        cls.admin()("delete", "clusterrole,clusterrolebinding", OPERATOR, *arguments)

    # ---- looking ----

    def status(self, shard):
        return self.cluster.json(f"{CONFIGS}/{shard}").get("status", {})

    def enforced(self, shard, generation):
        status = self.status(shard)
        conditions = {c["type"]: c for c in status.get("conditions", [])}
        enforced = conditions.get("Enforced", {})
        return (
            enforced.get("observedGeneration", 0) >= generation
            and enforced["status"] == "True"
            and status.get("enforced") == "2/2"
        )

    def wait_enforced(self, shard):
        """Its config as it is now, by all its pods, as a user sees it; returns when."""
        generation = self.cluster.json(f"{CONFIGS}/{shard}")["metadata"]["generation"]
        what = f"generation {generation} of {shard} is enforced on 2/2"
        try:
            harness.wait_for(lambda: self.enforced(shard, generation), what, 240, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.status(shard)}") from None
        return time.time()

    def move(self, to_green, at_once=False):
        """The team that moves goes to the other shard, with kubectl: taken away first, and given
        when that is enforced; or both with one command, blue's config first whichever loses it."""
        loser, gainer = ("blue", "green") if to_green else ("green", "blue")
        kept = {"blue": BLUE[:-1], "green": GREEN}[loser]
        more = {"blue": BLUE, "green": [MOVING, *GREEN]}[gainer]
        taken, handed = self.sharding_config(loser, kept), self.sharding_config(gainer, more)
        begun = given = time.time()
        if at_once:
            self.apply(*sorted((taken, handed), key=lambda config: config["metadata"]["name"]))
            lost = self.wait_enforced(loser)
        else:
            self.apply(taken)
            lost = self.wait_enforced(loser)
            given = time.time()
            self.apply(handed)
        return audit.Move(MOVING, loser, gainer, begun, lost, given, self.wait_enforced(gainer))

    @classmethod
    def sharding_config(cls, shard, teams):
        """The example's, with these teams."""
        if shard not in cls.examples:
            path = os.path.join(EXAMPLE, f"shard-{shard}.yaml")
            command = ("create", "--dry-run=client", "-o", "json", "-f", path)
            cls.examples[shard] = cls.admin()(*command)
        thing = json.loads(cls.examples[shard])
        for limit in thing["spec"]["limits"]:
            for requirement in limit["selector"]["matchExpressions"]:
                requirement["values"] = teams
        return thing

    def wait_operator(self):
        return self.wait_ready(OPERATOR, SELECTOR, 4)

    def pods(self, namespace, selector):
        """Notes who has which address."""
        found = super().pods(namespace, selector)
        for pod in found:
            if namespace == OPERATOR and "podIP" in pod["status"]:
                name = pod["metadata"]["name"]
                known = self.names.setdefault(pod["status"]["podIP"], name)
                self.assertEqual(known, name, "an address was given twice")
        return found

    def wait_done(self, churn, what):
        """In all namespaces work is done that was given from now on."""
        now = time.monotonic()
        seen = set()

        def look():
            for team, (_, since) in list(churn.given.items()):
                if since > now and (team, since) not in seen:
                    seen.add((team, since))
            # The second one is given when the first is done.
            churn.check()
            return all(sum(t == team for t, _ in seen) >= 2 for team in TEAMS)

        try:
            harness.wait_for(look, f"{what}: the work goes on everywhere", timeout=240)
        except AssertionError as error:
            text = self.describe(OPERATOR, SELECTOR)
            raise AssertionError(f"{text}\n{error}: {churn.given} {now}") from None

    def asked(self, user):
        """The audit log's entries of a user."""
        found = audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], user)
        return [entry for entry in found if entry["user"].get("username") == user]

    def note_leases(self, asked):
        """A pod that came and went between two looks asked for the Lease that bears its name."""
        for entry in asked:
            place = entry.get("objectRef", {})
            lease = re.fullmatch(rf"cmesh-({OPERATOR}-\d+)", place.get("name", ""))
            if place.get("resource") == "leases" and lease:
                known = self.names.setdefault(entry["sourceIPs"][-1], lease[1])
                self.assertEqual(known, lease[1], "an address was given twice")

    def judge(self, since=0.0):
        """Of all writes in the teams' namespaces. All pods have the same account, but the API
        server sees each one's own address."""
        writes = []
        asked = self.asked(ACCOUNT)
        self.note_leases(asked)
        for entry in asked:
            place = entry.get("objectRef", {})
            if entry["verb"] in audit.WRITES and place.get("namespace") in TEAMS:
                address = entry["sourceIPs"][-1]
                self.assertIn(address, self.names, f"of no pod: {entry}")
                pod = self.names[address]
                writes.append(audit.write_of(entry, pod, shard_of(pod)))
        return audit.Judge(self, [write for write in writes if write.came >= since])

    def churn(self):
        churn = Churn(self.cluster)
        self.addCleanup(churn.stop)
        return churn

    # ---- tests, in this order ----

    def test_1_injected_and_sharded(self):
        """Each pod has its sidecars, and the operator started when localproxy had rules; each shard
        has a leader of its own and works in its own namespaces only."""
        for pod in self.wait_operator():
            name = pod["metadata"]["name"]
            notes = pod["metadata"]["annotations"]
            self.assertEqual(shard_of(name), notes[f"{GROUP}/sharding-config-injected"])
            status = pod["status"]
            names = {s["name"] for s in status["containerStatuses"] + status["initContainerStatuses"]}
            self.assertLessEqual({"cmesh-localproxy", "cmesh-rulesync", "operator"}, names)
            ready = self.logged(name, "cmesh-localproxy", "rules are in force")
            self.assertLess(ready, self.logged(name, "operator"), f"{name}: it did not wait")
        for shard in PODS_OF:
            self.wait_enforced(shard)
        churn = self.churn()
        self.wait_done(churn, "after the start")
        for team in TEAMS:
            by = shard_of(churn.report(team)["reportedBy"])
            self.assertEqual("blue" if team in BLUE else "green", by, team)
        leases = self.cluster.json(LOCKS % OPERATOR)["items"]
        holders = {x["metadata"]["name"]: x["spec"]["holderIdentity"] for x in leases}
        self.assertEqual({f"{OPERATOR}---{shard}" for shard in PODS_OF}, set(holders))
        for lock, holder in holders.items():
            self.assertTrue(lock.endswith("---" + shard_of(holder)), holders)
        printed = self.kubectl("-n", OPERATOR, "get", "shardingconfigs")
        self.assertEqual(2, printed.count("2/2"), printed)

    def test_1_checked(self):
        """`manager check-operator` sees what the operator asks for."""
        self.wait_operator()
        command = [harness.program("manager"), "check-operator", f"statefulset/{OPERATOR}", "-o",
                   "json", "-n", OPERATOR, "--kubeconfig", self.cluster.kubeconfig]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(0, done.returncode, done.stderr)
        report = json.loads(done.stdout)
        found = {one["text"]: one["level"] for one in report["findings"]}
        self.assertIn(f"StatefulSet {OPERATOR}/{OPERATOR}: 4 pods, 4 of them", report["operator"])
        self.assertRegex("\n".join(found), r"\d+ requests of 4 pods were looked at")
        self.assertEqual("fine", found["it lists configmaps, which get control labels"])
        lock = f"one of its pods holds the lock {OPERATOR}"
        self.assertEqual("fine", found.get(lock), done.stdout)

    def end_shard(self, namespace, name):
        """Before its namespace goes: there the manager may create nothing any more."""
        self.kubectl("-n", namespace, "delete", "shardingconfig", name)
        self.kubectl("-n", namespace, "delete", "pods", "--all")
        path = f"/api/v1/namespaces/{namespace}/configmaps/{mesh.CONFIG_MAP}{name}"
        harness.wait_for(lambda: self.cluster.fetch(path).status == 404, "no rules are left", 60, 0.2)

    def test_1_files_are_shared(self):
        """The sidecars have a user of their own, the operator another one: both read what they must, of
        volumes whose files the kubelet shows to one user or group only. Of the sidecars' own files
        the operator gets the kubeconfig alone."""
        namespace = harness.make_namespace(self.cluster, "files", self.addCleanup)
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        for name in ("mine", "other"):
            self.cluster.json(maps, "POST", {"metadata": {"name": name, "labels": {"is": name}}})
        service = self.cluster.json("/api/v1/namespaces/default/services/kubernetes")
        secret = {"metadata": {"name": "real"}, "stringData": {"config": real_kubeconfig(service)}}
        self.cluster.json(f"/api/v1/namespaces/{namespace}/secrets", "POST", secret)
        limit = mesh.limit({"matchLabels": {"is": "mine"}})
        config = mesh.config("files", "files", limit)
        config["metadata"]["namespace"] = namespace
        self.addCleanup(self.end_shard, namespace, "files")
        self.apply(*files_rights(namespace), config)
        self.apply(files_pod(namespace, "group", fsGroup=3000), files_pod(namespace, "user"))
        for pod in self.wait_ready(namespace, "shard=files", 2):
            name = pod["metadata"]["name"]
            inside = ("-n", namespace, "exec", name, "-c", "operator", "--")
            out = self.kubectl(*inside, "kubectl", "get", "configmaps", "-n", namespace, "-o", "name")
            self.assertEqual("configmap/mine\n", out, name)
            code, _, _ = self.kubectl.run(*inside, "ls", "/run/cmesh")
            self.assertNotEqual(0, code, "it has not got the control socket")
        users = self.cluster.inside("ps", "-eo", "uid=,comm=").split("\n")
        for program in ("localproxy", "rulesync"):
            self.assertLessEqual(2, sum(line.split() == ["5443", program] for line in users), users)

    def test_1_in_cluster_clients(self):
        """Clients of every language that know no kubeconfig are led by the service account's folder,
        in the pods of two shards, one of which has the node's own network; the token in it opens
        nothing else."""
        _, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)
        namespace = harness.make_namespace(self.cluster, "clients", self.addCleanup)
        clients = node_clients.Clients(self.folder, namespace)
        configs = [self.colour(namespace, shard) for shard in PODS_OF]
        self.apply(*node_clients.rights(namespace), *configs)
        for shard in PODS_OF:
            self.addCleanup(self.end_shard, namespace, shard)
            self.make_map(namespace, "before", shard)
        # Most of them do not end when they are told to.
        end = ("-n", namespace, "delete", "pods", "--all", "--grace-period=1")
        self.addCleanup(self.kubectl, *end)
        self.apply(clients.pod("blue"), clients.pod("green", hostNetwork=True))
        self.wait_ready(namespace, "app=clients", 2)
        for shard in reversed(PODS_OF):
            self.make_map(namespace, "later", shard)
        for shard in PODS_OF:
            for name in clients.informers():
                self.wait_seen(namespace, shard, name)
            self.check_own_lock("/apis/coordination.k8s.io/v1", "leases", namespace, shard)
            if "python-elector" in clients.commands:
                self.check_own_lock("/api/v1", "configmaps", namespace, shard)
            self.check_token(namespace, shard)
        for pod in self.pods(namespace, "app=clients"):
            counts = {c["name"]: c["restartCount"] for c in pod["status"]["containerStatuses"]}
            self.assertEqual({0}, set(counts.values()), counts)

    def test_1_redirected_and_opted_out(self):
        """A client that knows nothing but the address of the API server's Service is led by the
        kernel, whoever it runs as; one that keeps its pod's service account is not, which is told."""
        _, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)
        namespace = harness.make_namespace(self.cluster, "ways", self.addCleanup)
        clients = node_clients.Clients(self.folder, namespace)
        clients.commands = {"go-informer": clients.commands["go-informer"]}
        configs = [self.colour(namespace, shard) for shard in PODS_OF]
        self.apply(*node_clients.rights(namespace), *configs)
        for shard in PODS_OF:
            self.addCleanup(self.end_shard, namespace, shard)
            for name in ("before", "later"):
                self.make_map(namespace, name, shard)
        self.addCleanup(self.kubectl, "-n", namespace, "delete", "pods", "--all", "--grace-period=1")
        blue, green = clients.pod("blue"), clients.pod("green")
        blue["metadata"]["labels"][f"{GROUP}/enable-iptables"] = "true"
        green["metadata"]["annotations"] = {f"{GROUP}/keep-service-account": "true",
                                            f"{GROUP}/disable-fake-kubeconfig-arg": "true",
                                            f"{GROUP}/disable-fake-kubeconfig-env": "true"}  # fmt: skip
        self.apply(blue, green)
        self.wait_ready(namespace, "app=clients", 2)
        self.wait_seen(namespace, "blue", "go-informer")
        made = self.cluster.json(f"/api/v1/namespaces/{namespace}/pods/blue")
        self.assertEqual([], self.holders_of_tokens(made, {"go-informer", "cmesh-nat"}))
        harness.wait_for(lambda: self.reason_of(namespace, "green") == "Bypassed", "it is told", 60)
        self.assertEqual("Enforced", self.reason_of(namespace, "blue"))
        log = self.kubectl("-n", namespace, "logs", "green", "-c", "go-informer")
        self.assertIn("before-blue", log, "it was not led")

    def test_1_traffic_policies(self):
        """A circuit breaker is in force in all pods soon after it is applied or edited, since the
        kubelet is told to look at once, and its status tells that."""
        self.wait_operator()
        rows = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"], "namespaces": ["*"]}
        bucket = {"burst": 9, "limit": 9, "interval": "1s"}
        limiting = {"name": "secrets", "resourceRules": [rows], "bucket": bucket}
        breaker = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "CircuitBreaker",
            "metadata": {"name": "guard", "namespace": OPERATOR},
            "spec": {"selector": {"matchLabels": {"app": OPERATOR}}, "rateLimitings": [limiting]},
        }
        gone = ("--ignore-not-found",)
        self.addCleanup(self.kubectl, "-n", OPERATOR, "delete", "circuitbreaker", "guard", *gone)
        times = []
        for number in range(EDITS):
            opened = number % 2 == 0
            limiting["triggerPolicy"] = "ForceOpened" if opened else "ForceClosed"
            self.apply(breaker)
            began = time.monotonic()
            self.wait_breakers("Opened" if opened else "Closed")
            times.append(time.monotonic() - began)
        print(f"{EDITS} edits of a CircuitBreaker, until all pods follow: {told(times)}", flush=True)
        limiting["triggerPolicy"] = "ForceOpened"
        self.apply(breaker)
        self.wait_breakers("Opened")
        path = f"/apis/{GROUP}/v1alpha1/namespaces/{OPERATOR}/circuitbreakers/guard"

        def enforced():
            conditions = self.cluster.json(path).get("status", {}).get("conditions", ())
            return any(c["type"] == "Enforced" and c["status"] == "True" for c in conditions)

        harness.wait_for(enforced, "the status tells it", 60, 0.2)
        self.assertEqual(4, self.cluster.json(path)["status"]["pods"])

    def wait_breakers(self, state):
        """The one rule that there is, in all pods."""

        def all_pods():
            pods = self.pods(OPERATOR, SELECTOR)
            found = [b["state"] for pod in pods for b in node.proxy_status(pod)["traffic"]["breakers"]]
            return found == [state] * 4

        harness.wait_for(all_pods, f"the breaker of all pods is {state}", 120, 0.02)

    @staticmethod
    def holders_of_tokens(pod, names):
        """Containers with one of these names that have a token of the cluster."""
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        return [
            container["name"]
            for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]
            if container["name"] in names
            for mount in container["volumeMounts"]
            if {"secret", "projected"} & volumes[mount["name"]].keys()
        ]

    def reason_of(self, namespace, shard):
        """The reason of the condition."""
        path = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/shardingconfigs/{shard}"
        conditions = self.cluster.json(path).get("status", {}).get("conditions", ())
        return next((c["reason"] for c in conditions if c["type"] == "Enforced"), None)

    @staticmethod
    def colour(namespace, shard):
        """A shard that sees what has its name."""
        config = mesh.config(shard, shard, mesh.limit({"matchLabels": {"is": shard}}))
        config["metadata"]["namespace"] = namespace
        config["spec"]["controller"] = {"leaderElectionName": node_clients.LOCK}
        return config

    def make_map(self, namespace, name, shard):
        thing = {"metadata": {"name": f"{name}-{shard}", "labels": {"is": shard}}}
        self.cluster.json(f"/api/v1/namespaces/{namespace}/configmaps", "POST", thing)

    def wait_seen(self, namespace, shard, container):
        """What belongs to the shard, and nothing else."""
        wanted = {f"{namespace}/{name}-{shard}" for name in ("before", "later")}

        def seen():
            log = self.kubectl("-n", namespace, "logs", shard, "-c", container)
            events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
            keys = {event["key"] for event in events if event["kind"] == "add"}
            self.assertLessEqual(keys, wanted, (shard, container))
            return keys == wanted

        harness.wait_for(seen, f"{container} of {shard} sees its own", interval=0.2)

    def check_own_lock(self, group, plural, namespace, shard):
        """It is held by the shard's pod, and there is none under the name that clients use."""
        path = f"{group}/namespaces/{namespace}/{plural}/{node_clients.LOCK}"
        own = f"{path}---{shard}"
        harness.wait_for(lambda: self.cluster.fetch(own).status == 200, own, interval=0.2)
        self.assertIn(f"'{shard}'", str(self.cluster.json(own)).replace('"', "'"))
        self.assertEqual(404, self.cluster.fetch(path).status)

    def check_token(self, namespace, pod):
        """The only one in the container: the API server refuses it."""
        inside = ("-n", namespace, "exec", pod, "-c", "go-informer", "--")
        skipped = "-path /proc -o -path /sys -o -path /usr -o -path /lib -o -path /clients"
        script = f"find / \\( {skipped} \\) -prune -o -name token -type f -exec cat {{}} +"
        token = self.kubectl(*inside, "sh", "-c", script)
        self.assertRegex(token, r"\A[\w-]{32,64}\Z")
        trust = ssl.create_default_context(cafile=self.cluster.env["CLUSTER_CA"])
        headers = [("Authorization", "Bearer " + token)]
        answer = wire.fetch(self.cluster.address, "/api/v1/configmaps", headers=headers, tls=trust)
        self.assertEqual(401, answer.status)

    def logged(self, pod, container, text=""):
        """When a container has first said that."""
        log = self.kubectl("-n", OPERATOR, "logs", "--timestamps", pod, "-c", container)
        return next(
            audit.seconds(line.partition(" ")[0]) for line in log.splitlines() if text in line
        )

    def check_sound(self):
        """No container has ever ended, or has had a sanitizer complain."""
        for pod in self.pods(OPERATOR, SELECTOR):
            for state in pod["status"]["containerStatuses"]:
                name = pod["metadata"]["name"]
                self.assertEqual(0, state["restartCount"], f"{name}: {state}")
                log = self.kubectl("-n", OPERATOR, "logs", name, "-c", state["name"])
                self.assertIsNone(harness.SANITIZER_REPORT.search(log), log)

    def test_2_edits_under_load(self):
        """One team goes to and fro: enforced soon, never worked on by two at the same time, and by
        nobody no longer than it takes to tell the pods; the other teams feel nothing of it."""
        self.wait_operator()
        churn = self.churn()
        self.apply(self.sharding_config("blue", BLUE))  # kubectl asks once what the server knows
        self.wait_done(churn, "before the edits")
        churn.slowest, since, moves = 0.0, time.time(), []
        for number in range(EDITS):
            moves.append(self.move(to_green=number % 2 == 0, at_once=number % 4 >= 2))
            self.wait_done(churn, f"edit {number}")
        churn.stop()
        self.moves.extend(moves)
        judge = self.judge(since)
        judge.check_owned(OTHERS)
        gaps = judge.check_moves(moves, OWN_WORK)
        self.check_sound()
        in_turn = [move for move in moves if move.given > move.begun]
        at_once = [move for move in moves if move.given == move.begun]
        for what, some in (("taken away, then given", in_turn), ("both at once", at_once)):
            begun, taken = self.latencies(some)
            nobody = [gap for gap, move in zip(gaps, moves) if move in some]
            print(
                f"{len(some)} moves under load, {what}: until the edits are enforced on all pods,"
                f" from kubectl's start: {told(begun)}; from when the API server took them:"
                f" {told(taken)}\nbetween the last write of one shard and the first of the other:"
                f" {told(nobody)}",
                flush=True,
            )
        print(f"the slowest of {churn.count} pieces of work took {churn.slowest:.2f} s", flush=True)

    def latencies(self, moves):
        """Of both edits of each, until they were enforced: from the start of kubectl, and from when
        the API server took them."""
        edits = [(move.loser, move.begun, move.lost) for move in moves]
        edits += [(move.gainer, move.given, move.enforced) for move in moves]
        applied = self.applied()
        taken = [
            enforced - min(at for name, at in applied if name == shard and at >= begun)
            for shard, begun, enforced in edits
        ]
        return [enforced - begun for _, begun, enforced in edits], taken

    def applied(self):
        """(shard, when) of each edit of a ShardingConfig by kubectl, as the API server took it."""
        log = audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], "kubectl-client-side-apply")
        return [
            (entry["objectRef"]["name"], audit.arrival(entry))
            for entry in log
            if entry["objectRef"]["resource"] == "shardingconfigs"
        ]

    def test_3_kills_under_load(self):
        """One part after the other is lost. All goes on by itself, and edits are enforced; never
        does a shard work on what it has not, or has lost."""
        self.wait_operator()
        churn = self.churn()
        self.wait_done(churn, "before")
        to_green, since, moves = True, time.time(), []
        for what, kill in (
            ("localproxy", lambda: self.kill_in_leader("localproxy")),
            ("rulesync", lambda: self.kill_in_leader("rulesync")),
            ("operator", lambda: self.kill_in_leader(OPERATOR)),
            ("manager", lambda: node.kill_in_pod(SYSTEM, self.leading_manager(), "manager")),
            ("manager's pod", self.delete_leading_manager),
            ("kubelet", lambda: self.cluster.crash("kubelet", "kubelet")),
            ("API server", self.crash_api_server),
        ):
            with self.subTest(killed=what):
                kill()
                began = time.monotonic()
                moves.append(self.retry_move(to_green))
                self.wait_done(churn, what)
                self.wait_operator()
                took = time.monotonic() - began
                print(f"{what} was lost: whole again after {took:.1f} s", flush=True)
                to_green = not to_green
        if not to_green:
            moves.append(self.move(to_green))
            self.wait_done(churn, "back")
        churn.stop()
        self.moves.extend(moves)
        judge = self.judge(since)
        judge.check_owned(OTHERS)
        gaps = ", ".join(f"{gap:.2f}" for gap in judge.check_moves(moves))
        print(f"between the last write of one and the first of the other: {gaps} s", flush=True)

    def retry_move(self, to_green):
        """The webhook may be away for a moment, and with it the right to edit."""
        begun = time.time()

        def moved():
            try:
                return self.move(to_green)
            except AssertionError as error:
                if "webhook" in str(error) or "connect" in str(error):
                    return False
                raise

        move = harness.wait_for(moved, "an edit is enforced", timeout=600, interval=1)
        # An edit that seemed to fail may have been taken.
        return dataclasses.replace(move, begun=begun, given=begun)

    def kill_in_leader(self, name):
        """The process of that name in the pod that leads blue."""
        lease = self.cluster.json(f"{LEASES % OPERATOR}/{OPERATOR}---blue")
        node.kill_in_pod(OPERATOR, lease["spec"]["holderIdentity"], name)

    def crash_api_server(self):
        began = time.time()
        self.cluster.crash("apiserver", "kube-apiserver")
        self.starts.append((began, time.time()))

    def leading_manager(self):
        """Its pod."""
        lease = self.cluster.json(f"{LEASES % SYSTEM}/cmesh-manager")
        return lease["spec"]["holderIdentity"].partition("_")[0]

    def delete_leading_manager(self):
        pod = self.leading_manager()
        arguments = ("--grace-period=0", "--force", "--wait=false")
        self.kubectl("-n", SYSTEM, "delete", "pod", pod, *arguments)

    def test_4_sidecars_are_upgraded_under_load(self):
        """A new image for the sidecars, first in the pods of one shard: the StatefulSet's partition
        keeps the others, of which each is then deleted by hand. Each operator gives its lock back,
        as its proxy outlives it. From then on all of a pod runs as the user that a cluster like
        OpenShift takes from its namespace's range: no image knows it."""
        self.wait_operator()
        made = images.build(os.path.join(self.folder, "next"), "--tag=next", "localproxy")
        self.cluster.load(made["localproxy"].path)
        image = made["localproxy"].name
        flags = (f"CMESH_SIDECAR_IMAGE={image}", "CMESH_SIDECAR_USER=0")
        self.kubectl("-n", SYSTEM, "set", "env", "deployment/cmesh-manager", *flags)
        self.rolled_out()
        churn = self.churn()
        self.wait_done(churn, "before")
        holders = Holders(self.kubectl)
        self.addCleanup(holders.stop)
        locks = {f"{OPERATOR}---{shard}" for shard in PODS_OF}
        harness.wait_for(lambda: locks <= set(holders.held), "the locks are renewed")
        churn.slowest, since = 0.0, time.time()
        began = time.monotonic()
        self.set_strategy(type="RollingUpdate", rollingUpdate={"partition": 2})
        user = {"securityContext": {"runAsUser": RANGE_USER, "fsGroup": RANGE_USER}}
        self.patch_stateful_set({"template": {"spec": user}})
        self.wait_sidecars(image, 2, 3)
        self.set_strategy(type="OnDelete", rollingUpdate=None)
        self.kubectl("-n", OPERATOR, "delete", "pod", f"{OPERATOR}-1")
        self.wait_sidecars(image, 1, 2, 3)
        self.kubectl("-n", OPERATOR, "delete", "pod", f"{OPERATOR}-0")
        self.wait_sidecars(image, 0, 1, 2, 3)
        took = time.monotonic() - began
        users = self.cluster.inside("ps", "-eo", "uid=,comm=").split("\n")
        for program in ("localproxy", "rulesync", "report-operator"):
            self.assertEqual(4, sum(line.split() == [str(RANGE_USER), program] for line in users), users)
        self.wait_done(churn, "after the upgrade")
        churn.stop()
        holders.stop()
        for lock, held in holders.held.items():
            self.assertIn("", held, f"{lock} did not change hands")
            for pair in zip(held, held[1:]):
                self.assertIn("", pair, f"{lock} was taken, not given back: {held}")
        self.judge(since).check_owned({**OTHERS, MOVING: "blue"})
        print(
            f"sidecars of 4 pods upgraded one by one in {took:.0f} s;"
            f" the slowest of {churn.count} pieces of work took {churn.slowest:.2f} s",
            flush=True,
        )

    def patch_stateful_set(self, spec):
        self.cluster.json(STATEFUL_SET, "PATCH", {"spec": spec}, MERGE)

    def set_strategy(self, **strategy):
        self.patch_stateful_set({"updateStrategy": strategy})

    def wait_sidecars(self, image, *numbers):
        """The pods with these numbers have the new image, and the others not."""
        wanted = {f"{OPERATOR}-{i}": i in numbers for i in range(4)}

        def look():
            found = self.pods(OPERATOR, SELECTOR)
            images_of = {
                pod["metadata"]["name"]: {
                    c["image"] for c in pod["spec"]["containers"] if c["name"].startswith("cmesh-")
                }
                for pod in found
            }
            return all(map(node.is_ready, found)) and wanted == {
                name: used == {image} for name, used in images_of.items()
            }

        harness.wait_for(look, f"{numbers} have {image}, and no others", 300, 0.5)

    def test_5_nothing_was_shown_unfiltered(self):
        """By the audit log of all that has happened: every list and watch of what is limited asked
        for namespaces of the shard, and for nothing else. It tells of watches when they begin. That
        of which localproxy itself takes nothing but a version is for no operator."""
        may_see = {"blue": set(BLUE), "green": {MOVING, *GREEN}}
        seen = set()
        for entry in self.asked(ACCOUNT):
            resource = entry.get("objectRef", {}).get("resource")
            if entry["verb"] in ("list", "watch") and resource in LIMITED:
                pod = self.names[entry["sourceIPs"][-1]]
                query = urllib.parse.urlsplit(entry["requestURI"]).query
                if VERSION_PROBE in query:
                    continue
                (selector,) = urllib.parse.parse_qs(query).get("labelSelector", [""])
                told = re.fullmatch(rf"{GROUP}/namespace in \((.*)\)", selector)
                self.assertTrue(told, entry)
                self.assertLessEqual(set(told[1].split(",")), may_see[shard_of(pod)], entry)
                seen.add((pod, entry["verb"], resource))
        self.assertEqual(4 * 2 * len(LIMITED), len(seen), seen)

    def test_5_each_wrote_where_it_may(self):
        """By the audit log of all that has happened, from the start through kills and upgrades."""
        judge = self.judge()
        judge.check_owned(OTHERS)
        judge.check_moves(self.moves)

    def test_5_rights(self):
        """The manager was refused nothing, but by an API server that did not know the roles yet."""
        mine = self.asked(MANAGER)
        self.assertGreater(len(mine), 100)
        refused = [
            (event["verb"], event["requestURI"])
            for event in mine
            if event.get("responseStatus", {}).get("code") == 403
            and not any(begin <= audit.arrival(event) <= end for begin, end in self.starts)
        ]
        self.assertEqual([], refused)

    # ---- at random ----

    def test_5_steps_at_random(self):
        """All teams go anywhere while edits are taken back, pods and managers end, and a shard is deleted
        while its pods run and made again: no team is ever two shards'."""
        self.wait_operator()
        self.pick = random.Random(SEED)
        churn = self.churn()
        self.wait_done(churn, "before")
        since, steps, owner = time.time(), [], dict(self.began_with())
        for number in range(STEPS + 1):
            chosen = self.pick.choice(self.random_steps()) if number < STEPS else self.back
            name = f"seed {SEED}: step {number}, {chosen.__name__}"
            steps.append(audit.Step(time.time(), name, {team: [owner[team]] for team in TEAMS}))
            for owner in chosen(owner):
                for team, shards in steps[-1].planned.items():
                    shards.append(owner[team])
            for shard in PODS_OF:
                self.wait_enforced(shard)
            self.wait_done(churn, name)
        churn.stop()
        gaps = audit.judge_steps(self, steps, self.judge(since).writes)
        print(f"seed {SEED}: {STEPS} steps at random, {len(gaps)} hand-overs, nobody's for"
              f" {max(gaps, default=0):.2f} s at most", flush=True)  # fmt: skip
        self.assertGreater(len(gaps), 0)
        self.assertLess(max(gaps), UNATTENDED, "nobody's for too long")

    def random_steps(self):
        return [self.move_all, self.edit_and_revert, self.end_a_pod, self.end_the_manager,
                self.delete_and_make_again]  # fmt: skip

    @staticmethod
    def began_with():
        return {**OTHERS, MOVING: "blue"}

    def back(self, _):
        self.apply_owners(self.began_with())
        return [self.began_with()]

    def random_owners(self):
        return {team: self.pick.choice(list(PODS_OF)) for team in TEAMS}

    def apply_owners(self, owner, shards=("blue", "green")):
        """Which of them comes first makes no difference."""
        items = []
        for shard in shards:
            teams = [team for team in TEAMS if owner[team] == shard]
            items.append(self.sharding_config(shard, teams or [f"none-of-{shard}"]))
        self.pick.shuffle(items)
        self.apply(*items)

    def move_all(self, _):
        new = self.random_owners()
        self.apply_owners(new)
        return [new]

    def edit_and_revert(self, old):
        other = self.random_owners()
        self.apply_owners(other)
        time.sleep(self.pick.choice((0, 0.3, 1, 3)))
        self.apply_owners(old)
        return [other, old]

    def end_a_pod(self, _):
        new = self.random_owners()
        self.apply_owners(new)
        pod = f"{OPERATOR}-{self.pick.randrange(4)}"
        grace = self.pick.choice(("--grace-period=1", "--grace-period=10"))
        self.kubectl("-n", OPERATOR, "delete", "pod", pod, grace, "--wait=false")
        return [new]

    def end_the_manager(self, _):
        new = self.random_owners()
        self.apply_owners(new)
        time.sleep(self.pick.choice((0, 0.1, 0.5)))
        self.delete_leading_manager()
        return [new]

    def delete_and_make_again(self, _):
        """The pods of the shard work on until they are gone; new ones cannot be without it. A
        StatefulSet whose pods are refused tries again after longer and longer pauses, or when it
        changes."""
        gone, kept = self.pick.sample(list(PODS_OF), 2)
        everything, new = {team: kept for team in TEAMS}, self.random_owners()
        self.kubectl("-n", OPERATOR, "delete", "shardingconfig", gone)
        self.apply_owners(everything, (kept,))
        time.sleep(self.pick.choice((0, 1, 3)))
        pods = [f"{OPERATOR}-{number}" for number in PODS_OF[gone]]
        self.kubectl("-n", OPERATOR, "delete", "pod", *pods, "--grace-period=2")
        self.wait_enforced(kept)
        self.apply_owners(new)

        def made():
            note = {"metadata": {"annotations": {"look-again": str(time.time())}}}
            self.cluster.json(STATEFUL_SET, "PATCH", note, MERGE)
            return set(pods) <= {pod["metadata"]["name"] for pod in self.pods(OPERATOR, SELECTOR)}

        harness.wait_for(made, "the pods are made again", 60, 0.5)
        return [everything, new]

    def test_6_uninstalled(self):
        """As k8s/README.md has it, while the operator goes on as before there was a mesh. The
        cluster is as it was, too."""
        self.wait_operator()
        churn = self.churn()
        self.wait_done(churn, "before")
        self.take_operator_out()
        self.wait_done(churn, "without the mesh")
        lease = self.cluster.json(f"{LEASES % OPERATOR}/{OPERATOR}")
        leader = lease["spec"]["holderIdentity"]
        for team in TEAMS:
            self.assertEqual(leader, churn.report(team)["reportedBy"], team)
        self.kubectl("delete", "shardingconfigs", "--all", "-A")
        rules = f"/api/v1/namespaces/{OPERATOR}/configmaps?fieldSelector=metadata.name=cmesh-rules-"
        harness.wait_for(
            lambda: not any(self.cluster.json(rules + s)["items"] for s in PODS_OF),
            "the rules go with the configs",
            180,
        )
        webhooks = os.path.join(harness.ROOT, "k8s", "base", "webhooks.yaml")
        self.kubectl("delete", "-f", webhooks)
        self.kubectl("-n", SYSTEM, "delete", "deployment", "cmesh-manager")
        managers = f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector=app.kubernetes.io/name=cmesh"
        harness.wait_for(lambda: not self.cluster.json(managers)["items"], "managers are gone", 120)
        command = [harness.program("manager"), "unlabel", "--kubeconfig", self.cluster.kubeconfig]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(0, done.returncode, done.stderr)
        arguments = ("--ignore-not-found", "--wait=false", "-f", "-")
        self.kubectl("delete", *arguments, stdin=self.manifests())
        self.wait_done(churn, "uninstalled")
        churn.stop()
        try:
            harness.wait_for(lambda: self.everything() == self.before, "all is gone", 240, 0.5)
        except AssertionError:
            self.assertEqual(self.before, self.everything())

    def take_operator_out(self):
        """Its pods without sidecars, and so all of them one shard again; at the same time, which is
        quicker than one by one."""
        label = {f"{GROUP}/enable-proxy": None}
        template = {"metadata": {"labels": label}}
        self.set_strategy(type="OnDelete", rollingUpdate=None)
        self.cluster.json(STATEFUL_SET, "PATCH", {"spec": {"template": template}}, MERGE)
        self.kubectl("-n", OPERATOR, "delete", "pods", "-l", SELECTOR, "--wait=false")

        def out():
            found = self.pods(OPERATOR, SELECTOR)
            return len(found) == 4 and all(
                node.is_ready(pod) and len(pod["spec"]["containers"]) == 1 for pod in found
            )

        harness.wait_for(out, "all pods are without sidecars", timeout=300, interval=0.5)


if __name__ == "__main__":
    harness.main()
