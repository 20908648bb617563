# SPDX-License-Identifier: Apache-2.0
"""What `manager compile` makes of an operator's webhook configurations, given to an API server as it is: it is
taken, and each review is asked of the shard that has the namespace, once.
"""

import json
import subprocess

import api
import harness
import mesh
import webhook_pods
from webhook_case import GROUP, hash_of
from webhook_pods import HOLD, MUTATING, NAMESPACE, SERVICE, VALIDATING, port_name

ROUTES, ORIGINAL = "cmesh-routes", "report-operator"
SHARDS = ("a", "b", "c")
NAMES = ["team-1", "team-2"]
HASHES = {"b": "hash-b", "c": "hash-c"}  # namespaces, by whose hashes the shards have them


def by_label(label, operator, *values):
    return {"key": label, "operator": operator, "values": list(values)}


def shard_of(name, *expressions):
    rule = {"apiGroups": [""], "resources": ["configmaps"]}
    limit = {"relateResources": [rule], "selector": {"matchExpressions": list(expressions)}}
    return {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "ShardingConfig",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "selector": {"matchLabels": {"app": NAMESPACE, "shard": name}},
            "webhook": {"port": webhook_pods.PORT, "duringHandover": "Hold"},
            "limits": [limit],
        },
    }  # fmt: skip


class CompileCase(webhook_pods.WebhookPodsCase):
    """What is compiled are the test's `shards()` and `originals()`."""

    def compile(self):
        """The webhook configurations that it prints, and what it warns of."""
        service = self.cluster.json(self.service)
        things = [*self.shards(), *self.originals(), {**service, "apiVersion": "v1", "kind": "Service"}]
        done = subprocess.run(
            [harness.program("manager"), "compile", "-f", "-"],
            input=json.dumps({"apiVersion": "v1", "kind": "List", "items": things}),
            capture_output=True, text=True, check=True, env=harness.clean_environment(),
        )  # fmt: skip
        found, decoder, rest = [], json.JSONDecoder(), done.stdout.strip()
        while rest:
            thing, end = decoder.raw_decode(rest)
            found += [thing] * (thing["kind"] in (MUTATING, VALIDATING))
            rest = rest[end:].strip()
        return found, done.stderr

    def apply_ports(self, ports):
        thing = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE}}
        thing["spec"] = {"ports": [{"name": n, "port": p, "protocol": "TCP", "targetPort": n} for n, p in ports]}
        answer = self.api.ask("PATCH", f"{self.service}?fieldManager={ROUTES}", thing, api.APPLY)
        self.assertEqual(200, answer.status, answer.said)


class CompileTest(CompileCase):
    """A canary by names, two shards by hashes, and a pod of none."""

    def setUp(self):
        super().setUp()
        pods = [webhook_pods.WebhookPod(self, f"pod-{of}".lower(), of) for of in (*SHARDS, None)]
        self.start(pods, proxied=False)
        for space in (*NAMES, *HASHES.values(), "other-1"):
            self.make_space(space)
        self.make_space("unlabelled")

    def shards(self):
        leave_out = by_label(harness.NAMESPACE_LABEL, "NotIn", *NAMES)
        return [
            shard_of("a", by_label(harness.NAMESPACE_LABEL, "In", *NAMES)),
            *(shard_of(of, by_label(harness.HASH_LABEL, "In", hash_of(HASHES[of])), leave_out) for of in HASHES),
        ]  # fmt: skip

    def originals(self):
        found = []
        for kind in (MUTATING, VALIDATING):
            webhook = self.webhook(kind)
            webhook["rules"][0]["resources"] += ["namespaces"]
            # No shard limits Secrets, so this one stays as it is.
            others = self.webhook(kind, name="others." + webhook["name"])
            others["rules"][0]["resources"] = ["secrets"]
            metadata = {"name": ORIGINAL, "labels": {f"{GROUP}/route": "true"}}
            version = "admissionregistration.k8s.io/v1"
            found.append({"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": [webhook, others]})
        return found

    def settle(self):
        def asked():
            name = f"probe-{next(harness.Run.counter)}"
            webhook_pods.write(self.cluster, "CREATE", "team-1", name)
            return [r.of for r in self.reviews() if r.name == name] == ["a", "a"]

        harness.wait_for(asked, "the entries are in force", interval=0.2)

    def test_what_is_printed(self):
        found, said = self.compile()
        self.assertEqual([ROUTES, ROUTES, ORIGINAL, ORIGINAL], [t["metadata"]["name"] for t in found])
        self.assertEqual(2, said.count("cannot be routed: SeenByAll: no limit of shard"), said)
        self.assertNotIn("spec.webhook", said)
        self.apply_ports([(port_name(of), 20443 + i) for i, of in enumerate(SHARDS)] + [(HOLD, 20446)])
        self.assertEqual(found, self.compile()[0])  # the Service has these numbers now
        for of in SHARDS:
            self.wait_endpoints(port_name(of), 1)
        for thing in found:
            self.api.apply(thing)
        self.settle()
        self.make_space("new-space")
        owners = {**{name: ["a"] for name in NAMES}, "hash-b": ["b"], "hash-c": ["c"]}
        owners.update({"other-1": None, "unlabelled": None, "new-space": None})
        self.check_once(self.write_all(owners, 3), owners)
        found = [r.webhook for r in self.reviews() if r.resource == "namespaces" and r.name == "new-space"]
        self.assertEqual(["default", "validate"], found)
        self.check_stored()

    def check_stored(self):
        """The API server has what was printed, and nothing in other words."""
        for thing in self.compile()[0]:
            path = f"{webhook_pods.CONFIGURATIONS}/{webhook_pods.KINDS[thing['kind']]}/{thing['metadata']['name']}"
            stored = self.cluster.json(path)
            names = [w["name"] for w in stored["webhooks"]]
            self.assertEqual([w["name"] for w in thing["webhooks"]], names)
            for printed, kept in zip(thing["webhooks"], stored["webhooks"]):
                self.assertEqual(printed.get("namespaceSelector", {}), kept["namespaceSelector"])
                self.assertEqual(printed["clientConfig"], kept["clientConfig"])


if __name__ == "__main__":
    harness.main()
