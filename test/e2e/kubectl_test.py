# SPDX-License-Identifier: Apache-2.0
"""What a person does with kubectl works through localproxy as it does without."""

import json
import os
import re
import subprocess
import unittest

import harness

SHARD = "e2e-shard=a"

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.e2e.cmesh.example"},
    "spec": {
        "group": "e2e.cmesh.example",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget of the end-to-end tests.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "description": "What is wanted.",
                                "properties": {"replicas": {"type": "integer", "minimum": 0}},
                            },
                            "status": {
                                "type": "object",
                                "properties": {"replicas": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def meta(name, labels):
    return {"name": name, "labels": labels} if labels else {"name": name}


def config_map(name, data=None, **labels):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(name, labels),
        "data": data or {"key": "value"},
    }


def widget(name, replicas=1, **labels):
    return {
        "apiVersion": "e2e.cmesh.example/v1",
        "kind": "Widget",
        "metadata": meta(name, labels),
        "spec": {"replicas": replicas},
    }


def ageless(text):
    """The same table a second later."""
    return re.sub(r" +", " ", re.sub(r"\b(\d+[smhd])+\b", "AGE", text))


class KubectlTestCase(harness.TestCase):
    """A namespace; `direct` is kubectl at the API server, `proxied` through limits on ConfigMaps
    and widgets: those with the label e2e-shard=a."""

    namespace = "kubectl"
    proxied_kubeconfig = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        limits = [harness.limit(["configmaps", "widgets"], SHARD)]
        cls.proxy_process = cls.class_proxy(limits)
        folder = cls.make_folder(cls.addClassCleanup)
        cls.direct = harness.Kubectl(os.path.join(folder, "direct"), cls.cluster.kubeconfig)
        cls.proxied = harness.Kubectl(
            os.path.join(folder, "proxied"), server=cls.proxy_process.url
        )
        cls.namespace = harness.make_namespace(cls.cluster, cls.namespace, cls.addClassCleanup)

    def in_namespace(self, kubectl, *args, **more):
        return kubectl("-n", self.namespace, *args, **more)

    def create(self, *things):
        """Through localproxy."""
        text = "".join(json.dumps(thing) + "\n" for thing in things)
        return self.in_namespace(self.proxied, "create", "-f", "-", stdin=text)

    def stored(self, kind, name):
        return json.loads(self.in_namespace(self.direct, "get", kind, name, "-o", "json"))

    def assert_same(self, *args, stdin=None, code=None):
        """Exit code, output and errors are those of kubectl without localproxy, when these are the
        same afterwards: what the tests before left is still going away, and lists have versions.
        `code`: what it comes to be; discovery fails while a group is on its way out."""

        def result(kubectl):
            status, out, err = kubectl.run("-n", self.namespace, *args, stdin=stdin)
            return status, ageless(out), err

        def compare():
            direct, proxied = result(self.direct), result(self.proxied)
            if code not in (None, direct[0]):
                return None
            same = direct == proxied or direct == result(self.direct)
            return (direct, proxied) if same else None

        direct, proxied = harness.wait_for(compare, f"{args}: the cluster stands still")
        self.assertEqual(direct, proxied, args)
        return proxied


class ReadTest(KubectlTestCase):
    """get, list and all that reads only."""

    namespace = "kubectl-read"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        things = [config_map(f"mine-{i:02}", **{"e2e-shard": "a", "n": str(i)}) for i in range(12)]
        things += [config_map(f"other-{i}", **{"e2e-shard": "b"}) for i in range(4)]
        things += [config_map("unlabelled")]
        things += [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unlimited"}}]
        text = "".join(json.dumps(thing) + "\n" for thing in things)
        cls.direct("-n", cls.namespace, "create", "-f", "-", stdin=text)
        cls.mine = [f"configmap/mine-{i:02}" for i in range(12)]

    def list(self, *args):
        return self.in_namespace(self.proxied, "get", "configmaps", "-o", "name", *args).split()

    def test_list_shows_the_shard_only(self):
        self.assertEqual(self.mine, self.list())

    def test_list_in_pages(self):
        self.assertEqual(self.mine, self.list("--chunk-size=5"))
        before = self.proxy_process.metrics()['cmesh_proxy_requests_total{verb="list",code="200"}']
        self.assertEqual(self.mine, self.list("--chunk-size=2"))
        after = self.proxy_process.metrics()['cmesh_proxy_requests_total{verb="list",code="200"}']
        # The server cannot know that nothing behind the sixth page matches.
        self.assertIn(after - before, (6, 7))

    def test_own_selectors_narrow_further(self):
        self.assertEqual(["configmap/mine-03"], self.list("-l", "n=3"))
        self.assertEqual(self.mine[:2], self.list("-l", "n in (0, 1)"))
        self.assertEqual([], self.list("-l", "e2e-shard=b"))
        self.assertEqual([], self.list("-l", "!e2e-shard"))
        self.assertEqual(self.mine, self.list("-l", "e2e-shard!=b"))
        self.assertEqual(["configmap/mine-05"], self.list("--field-selector=metadata.name=mine-05"))
        self.assertEqual([], self.list("--field-selector=metadata.name=other-1"))
        self.assertEqual([], self.list("-l", "n=3", "--field-selector=metadata.name=mine-05"))

    def test_all_namespaces(self):
        columns = "custom-columns=:.metadata.namespace,:.metadata.name,:.metadata.labels.e2e-shard"
        rows = self.proxied("get", "configmaps", "-A", "--no-headers", "-o", columns).split("\n")
        rows = [row.split() for row in rows if row]
        self.assertEqual({"a"}, {shard for _, _, shard in rows})
        ours = [f"configmap/{name}" for namespace, name, _ in rows if namespace == self.namespace]
        self.assertEqual(self.mine, ours)

    def test_output_formats_agree_with_a_direct_request_for_the_same(self):
        for output in ("", "wide", "yaml", "json", "name", "jsonpath={.items[*].metadata.uid}"):
            args = ["get", "configmaps", *(["-o", output] if output else [])]
            direct = self.in_namespace(self.direct, *args, "-l", SHARD)
            self.assertEqual(ageless(direct), ageless(self.in_namespace(self.proxied, *args)))
        args = ["get", "configmaps", "--show-labels", "--sort-by=.metadata.name"]
        direct = self.in_namespace(self.direct, *args, "-l", SHARD)
        self.assertEqual(ageless(direct), ageless(self.in_namespace(self.proxied, *args)))

    def test_unlimited_reads_are_the_same(self):
        for args in (
            ["get", "namespaces"],
            ["get", "serviceaccounts,secrets,services", "-o", "wide"],
            ["get", "configmap", "mine-01", "-o", "yaml"],
            ["get", "configmap", "other-1", "-o", "json"],
            ["describe", "namespace", "default"],
            ["describe", "configmap", "mine-02"],
        ):
            code, out, _ = self.assert_same(*args)
            self.assertEqual(0, code)
            self.assertTrue(out)

    @harness.needs("RBAC")
    def test_roles_are_the_same(self):
        code, out, _ = self.assert_same("get", "clusterroles")
        self.assertEqual(0, code)
        self.assertTrue(out)

    def test_discovery_is_the_same(self):
        for args in (
            ["api-resources"],
            ["api-resources", "--namespaced=false", "-o", "wide"],
            ["api-versions"],
            ["version", "-o", "json"],
            ["explain", "pods.spec.containers"],
            ["explain", "pods", "--recursive"],
        ):
            _, out, _ = self.assert_same(*args, code=0)
            self.assertTrue(out)

    @harness.needs("nodes")
    def test_a_dump_is_the_same(self):
        dumps = []
        for kubectl in (self.direct, self.proxied):
            out = kubectl("cluster-info", "dump", "--namespaces", "no-such-namespace")
            # The version of a list moves with every write to the cluster.
            dumps.append(re.sub(r'"resourceVersion": "[0-9]+"', "", out))
        self.assertIn('"kind": "NodeList"', dumps[0])
        self.assertEqual(dumps[0], dumps[1])

    def test_raw_paths_are_the_same(self):
        for path in ("/", "/healthz", "/readyz?verbose", "/version", "/apis", "/openapi/v2"):
            code, out, _ = self.assert_same("get", "--raw", path)
            self.assertEqual(0, code)
            self.assertTrue(out)
        code, out, _ = self.proxied.run(
            "get", "--raw", f"/api/v1/namespaces/{self.namespace}/configmaps"
        )
        self.assertEqual(0, code)
        self.assertEqual(12, len(json.loads(out)["items"]))

    @harness.needs("RBAC")
    def test_authorization_is_asked_for_the_same(self):
        for args in (
            ["auth", "can-i", "create", "pods"],
            ["auth", "can-i", "list", "nodes", "--as", "nobody"],
            ["auth", "can-i", "--list"],
        ):
            self.assert_same(*args)

    @harness.needs("RBAC")
    def test_impersonation_passes(self):
        code, _, err = self.assert_same("get", "pods", "--as", "somebody", "--as-group", "some")
        self.assertEqual(1, code)
        self.assertIn("(Forbidden)", err)
        self.assertIn('"somebody"', err)


class WriteTest(KubectlTestCase):
    """What changes objects arrives, and is answered, as without localproxy."""

    namespace = "kubectl-write"

    def test_create_replace_label_annotate(self):
        out = self.create(config_map("written", {"a": "1"}, **{"e2e-shard": "a"}))
        self.assertEqual("configmap/written created\n", out)
        self.assertEqual({"a": "1"}, self.stored("configmap", "written")["data"])
        thing = config_map("written", {"b": "2"}, **{"e2e-shard": "a"})
        self.in_namespace(self.proxied, "replace", "-f", "-", stdin=json.dumps(thing))
        self.assertEqual({"b": "2"}, self.stored("configmap", "written")["data"])
        self.in_namespace(self.proxied, "label", "configmap", "written", "colour=blue")
        self.in_namespace(self.proxied, "annotate", "configmap", "written", "note=größer & more")
        stored = self.stored("configmap", "written")["metadata"]
        self.assertEqual("blue", stored["labels"]["colour"])
        self.assertEqual("größer & more", stored["annotations"]["note"])

    def test_create_generators(self):
        self.in_namespace(self.proxied, "create", "configmap", "made", "--from-literal=x=y")
        self.in_namespace(self.proxied, "create", "secret", "generic", "kept", "--from-literal=p=q")
        self.assertEqual({"x": "y"}, self.stored("configmap", "made")["data"])
        self.assertEqual({"p": "cQ=="}, self.stored("secret", "kept")["data"])

    def test_apply(self):
        first = json.dumps(config_map("applied", {"a": "1", "b": "2"}))
        second = json.dumps(config_map("applied", {"a": "3"}))
        apply = ["apply", "-f", "-"]
        self.assertIn("created", self.in_namespace(self.proxied, *apply, stdin=first))
        self.assertIn("unchanged", self.in_namespace(self.proxied, *apply, stdin=first))
        self.assertIn("configured", self.in_namespace(self.proxied, *apply, stdin=second))
        self.assertEqual({"a": "3"}, self.stored("configmap", "applied")["data"])
        diff = self.proxied.run("-n", self.namespace, "diff", "-f", "-", stdin=first)
        self.assertEqual(1, diff[0])
        self.assertIn('b: "2"', diff[1])

    def test_apply_on_the_server(self):
        apply = ["apply", "--server-side", "-f", "-"]
        first = json.dumps(config_map("served", {"a": "1", "b": "2"}))
        second = json.dumps(config_map("served", {"a": "3"}))
        self.in_namespace(self.proxied, *apply, stdin=first)
        self.in_namespace(self.proxied, *apply, stdin=second)
        # kubectl itself shows no managed fields since 1.21.
        stored = self.cluster.json(f"/api/v1/namespaces/{self.namespace}/configmaps/served")
        self.assertEqual({"a": "3"}, stored["data"])
        managers = [(m["manager"], m["operation"]) for m in stored["metadata"]["managedFields"]]
        self.assertEqual([("kubectl", "Apply")], managers)
        code, _, err = self.assert_same(*apply, "--field-manager=rival", stdin=first)
        self.assertEqual(1, code)
        self.assertIn(".data.a", err)  # the field that they both want

    def test_patch(self):
        self.create(config_map("patched", {"a": "1"}))
        patches = {
            "strategic": '{"data": {"b": "2"}}',
            "merge": '{"data": {"a": null}}',
            "json": '[{"op": "add", "path": "/data/c", "value": "3"}]',
        }
        for kind, patch in patches.items():
            args = ["patch", "configmap", "patched", "--type", kind, "-p", patch]
            self.assertIn("patched", self.in_namespace(self.proxied, *args))
        self.assertEqual({"b": "2", "c": "3"}, self.stored("configmap", "patched")["data"])

    @harness.needs("Deployments")
    def test_subresources(self):
        self.in_namespace(self.proxied, "create", "deployment", "web", "--image=i", "--replicas=0")
        self.in_namespace(self.proxied, "scale", "deployment", "web", "--replicas=2")
        self.assertEqual(2, self.stored("deployment", "web")["spec"]["replicas"])
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/web/scale"
        scale = json.loads(self.proxied("get", "--raw", path))
        self.assertEqual(("Scale", 2), (scale["kind"], scale["spec"]["replicas"]))
        scale["spec"]["replicas"] = 0
        del scale["metadata"]["resourceVersion"]  # its controller writes, too
        self.proxied("replace", "--raw", path, "-f", "-", stdin=json.dumps(scale))
        self.assertEqual(0, self.stored("deployment", "web")["spec"]["replicas"])
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "bare"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        self.create(pod)
        path = f"/api/v1/namespaces/{self.namespace}/pods/bare/status"
        status = json.loads(self.proxied("get", "--raw", path))
        status["status"]["message"] = "hello from the test"
        self.proxied("replace", "--raw", path, "-f", "-", stdin=json.dumps(status))
        self.assertEqual("hello from the test", self.stored("pod", "bare")["status"]["message"])

    def test_delete(self):
        self.create(config_map("gone"), config_map("gone-too", **{"e2e-shard": "a"}))
        args = ["delete", "configmap", "gone", "gone-too", "-o", "name"]
        out = self.in_namespace(self.proxied, *args)
        self.assertEqual("configmap/gone\nconfigmap/gone-too\n", out)
        self.assertEqual(1, self.assert_same("get", "configmap", "gone")[0])

    def test_wait(self):
        self.create(config_map("awaited", **{"e2e-shard": "a"}))
        args = ["-n", self.namespace, "wait", "configmap/awaited", "--for=delete", "--timeout=60s"]
        waiting = self.proxied.popen(*args)
        self.addCleanup(harness.end_process, waiting)
        harness.wait_for(lambda: self.watches() > 0, "kubectl wait has a watch open")
        self.in_namespace(self.direct, "delete", "configmap", "awaited")
        _, err = waiting.communicate(timeout=60)
        self.assertEqual(0, waiting.returncode, err)

    def watches(self):
        return self.proxy_process.metrics()["cmesh_proxy_open_watches"]

    def test_watch(self):
        self.create(config_map("first", **{"e2e-shard": "a", "seen": "by-watch"}))
        args = ["get", "configmaps", "-l", "seen=by-watch", "--watch"]
        args += ["-o", "jsonpath={.metadata.name}{'\\n'}"]
        watching = self.proxied.popen("-n", self.namespace, *args)
        self.addCleanup(harness.end_process, watching)
        harness.wait_for(lambda: self.watches() > 0, "kubectl has a watch open")
        for name, shard in (("unseen", "b"), ("second", "a"), ("moving", "b")):
            self.create(config_map(name, **{"e2e-shard": shard, "seen": "by-watch"}))
        self.in_namespace(
            self.direct, "label", "--overwrite", "configmap", "moving", "e2e-shard=a"
        )
        self.in_namespace(self.direct, "delete", "configmap", "unseen", "second")
        lines = [watching.stdout.readline() for _ in range(4)]
        self.assertEqual(["first\n", "second\n", "moving\n", "second\n"], lines)


class DeleteCollectionTest(KubectlTestCase):
    """delete --all deletes what list shows, and nothing else."""

    namespace = "kubectl-collection"

    def test_delete_all(self):
        for i in range(3):
            self.create(config_map(f"mine-{i}", **{"e2e-shard": "a"}))
            self.create(config_map(f"other-{i}", **{"e2e-shard": "b"}))
        out = self.in_namespace(self.proxied, "delete", "configmaps", "--all", "-o", "name").split()
        self.assertEqual([f"configmap/mine-{i}" for i in range(3)], sorted(out))
        left = self.in_namespace(self.direct, "get", "configmaps", "-o", "name").split()
        self.assertEqual([f"configmap/other-{i}" for i in range(3)], sorted(left)[-3:])
        self.assertFalse([name for name in left if "mine" in name])

    def test_delete_by_label(self):
        self.create(config_map("a-red", **{"e2e-shard": "a", "colour": "red"}))
        self.create(config_map("a-blue", **{"e2e-shard": "a", "colour": "blue"}))
        self.create(config_map("b-red", **{"e2e-shard": "b", "colour": "red"}))
        self.in_namespace(self.proxied, "delete", "configmaps", "-l", "colour=red")
        left = self.in_namespace(self.direct, "get", "configmaps", "-o", "name").split()
        self.assertNotIn("configmap/a-red", left)
        self.assertIn("configmap/a-blue", left)
        self.assertIn("configmap/b-red", left)


class CustomResourceTest(KubectlTestCase):
    """CustomResourceDefinitions come up through localproxy, and their resources are limited."""

    namespace = "kubectl-custom"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(cls.direct.run, "delete", "crd", WIDGETS["metadata"]["name"])
        cls.proxied("apply", "-f", "-", stdin=json.dumps(WIDGETS))
        crd = "crd/" + WIDGETS["metadata"]["name"]
        cls.proxied("wait", "--for=condition=Established", crd, "--timeout=30s")
        harness.wait_for(
            lambda: cls.direct.run("get", "widgets", "-A")[0] == 0, "widgets are served"
        )

    def test_life_of_a_custom_resource(self):
        self.create(widget("one", 1, **{"e2e-shard": "a"}), widget("two", 2, **{"e2e-shard": "b"}))
        shown = self.in_namespace(self.proxied, "get", "widgets")
        self.assertRegex(shown, r"NAME +REPLICAS\none +1\n$")
        apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"]
        thing = json.dumps(widget("one", 5, **{"e2e-shard": "a"}))
        self.in_namespace(self.proxied, *apply, stdin=thing)
        self.in_namespace(self.proxied, "scale", "widget", "two", "--replicas=7")
        patch = ["patch", "widget", "one", "--type=merge", "-p", '{"spec": {"replicas": 6}}']
        self.in_namespace(self.proxied, *patch)
        self.assertEqual(6, self.stored("widget", "one")["spec"]["replicas"])
        self.assertEqual(7, self.stored("widget", "two")["spec"]["replicas"])
        self.in_namespace(self.proxied, "delete", "widgets", "--all")
        left = self.in_namespace(self.direct, "get", "widgets", "-o", "name")
        self.assertEqual("widget.e2e.cmesh.example/two\n", left)

    def test_status_of_a_custom_resource(self):
        self.create(widget("told", 1, **{"e2e-shard": "a"}))
        path = f"/apis/e2e.cmesh.example/v1/namespaces/{self.namespace}/widgets/told/status"
        thing = json.loads(self.proxied("get", "--raw", path))
        thing["status"] = {"replicas": 3}
        self.proxied("replace", "--raw", path, "-f", "-", stdin=json.dumps(thing))
        self.assertEqual({"replicas": 3}, self.stored("widget", "told")["status"])

    def test_explain_and_discovery(self):
        self.assertIn("widgets", self.proxied("api-resources", "--api-group=e2e.cmesh.example"))
        harness.wait_for(
            lambda: self.direct.run("explain", "widgets")[0] == 0, "the schema is published"
        )
        _, out, _ = self.assert_same("explain", "widgets.spec")
        self.assertIn("What is wanted.", out)

    def test_invalid(self):
        code, _, err = self.assert_same("create", "-f", "-", stdin=json.dumps(widget("bad", -1)))
        self.assertEqual(1, code)
        self.assertIn("spec.replicas", err)


class ErrorTest(KubectlTestCase):
    """The API server's errors arrive as they are."""

    namespace = "kubectl-errors"

    def test_not_found(self):
        for args in (
            ["get", "configmap", "missing"],
            ["get", "configmap", "missing", "-o", "yaml"],
            ["delete", "configmap", "missing"],
            ["get", "no-such-resource"],
            ["get", "--raw", "/apis/no.such.group/v1/things"],
            ["-n", "no-such-namespace", "create", "configmap", "x"],
        ):
            code, _, err = self.assert_same(*args)
            self.assertEqual(1, code)
            self.assertTrue(err)

    def test_conflict(self):
        self.create(config_map("taken"))
        taken = json.dumps(config_map("taken"))
        code, _, err = self.assert_same("create", "-f", "-", stdin=taken)
        self.assertEqual(1, code)
        self.assertIn("(AlreadyExists)", err)
        stale = self.stored("configmap", "taken")
        self.in_namespace(self.direct, "label", "configmap", "taken", "newer=yes")
        code, _, err = self.assert_same("replace", "-f", "-", stdin=json.dumps(stale))
        self.assertEqual(1, code)
        self.assertIn("(Conflict)", err)

    def test_invalid(self):
        for thing in (config_map("Not_A_Name"), config_map("name", a="b" * 64)):
            code, _, err = self.assert_same("create", "-f", "-", stdin=json.dumps(thing))
            self.assertEqual(1, code)
            self.assertIn("is invalid", err)

    def test_bad_selector(self):
        code, _, err = self.assert_same("get", "secrets", "-l", "a in (b")
        self.assertEqual(1, code)
        self.assertTrue(err)

    @harness.needs("RBAC")
    def test_forbidden(self):
        kubeconfig = self.cluster.user_kubeconfig(self.folder, "nobody-special")
        proxy = self.proxy([harness.limit(["configmaps"], SHARD)], kubeconfig)
        direct = harness.Kubectl(self.path("low-direct"), kubeconfig)
        proxied = harness.Kubectl(self.path("low-proxied"), server=proxy.url)
        for args in (["get", "secrets"], ["get", "configmaps"], ["delete", "pod", "x"]):
            code, out, err = proxied.run(*args)
            self.assertEqual(1, code)
            self.assertIn("(Forbidden)", err)
            self.assertIn('"nobody-special"', err)
            self.assertEqual(direct.run(*args), (code, out, err))


class GeneratedKubeconfigTest(KubectlTestCase):
    """kubectl with the kubeconfig that kubeconfig-gen wrote."""

    namespace = "kubectl-generated"

    def test_list_with_a_token(self):
        program = harness.program("kubeconfig-gen")
        token = self.path("token", "e2e-shared-token\n")
        output = self.path("generated")
        proxy = self.proxy([harness.limit(["configmaps"], SHARD)], args=["--token-file", token])
        command = [program, "--kubeconfig", self.cluster.kubeconfig, "--proxy", proxy.url]
        command += ["--token-file", token, "--output", output]
        subprocess.run(command, check=True, capture_output=True, env=harness.clean_environment())
        kubectl = harness.Kubectl(self.path("generated-home"), output)
        self.create(config_map("mine", **{"e2e-shard": "a"}), config_map("other"))
        args = ["--context", "cmesh-test", "-n", self.namespace, "get", "configmaps", "-o", "name"]
        self.assertEqual("configmap/mine\n", kubectl(*args))
        code, _, err = harness.Kubectl(self.path("without"), server=proxy.url).run("get", "pods")
        self.assertEqual(1, code)
        self.assertIn("logged in", err)


if __name__ == "__main__":
    harness.main()
