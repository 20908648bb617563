#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kubeconfig-gen as a user meets it: real files, real kubectl, the Python and JavaScript clients.

usage: kubeconfig_gen_test.py PATH-OF-KUBECONFIG-GEN [unittest arguments]

Tests whose client is not installed are skipped, and say so.
"""
import base64
import http.server
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

import yaml

from real_clients import LOCK, PYTHON, have_python_client, install_js_client

PROGRAM = None
HERE = os.path.dirname(os.path.abspath(__file__))

HAVE_KUBECTL = shutil.which("kubectl") is not None
HAVE_PYTHON_CLIENT = have_python_client()


class FakeServer:
    """Answers as little of an API server as the clients need, and remembers what was asked."""

    def __init__(self):
        requests = self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                requests.append((self.path, self.headers.get("Authorization")))
                body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {},
                                   "items": [], "major": "1", "minor": "20"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cmesh-e2e-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("CMESH_", "KUBE"))}
        self.env["HOME"] = self.dir
        self.env["CMESH_TOKEN_FILE"] = "off"  # but where it is what the test is about

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w" if isinstance(text, str) else "wb") as f:
            f.write(text)
        return path

    def config(self, name="config", dump=yaml.safe_dump, **fields):
        document = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [],
                    "contexts": [], "current-context": ""}
        document.update(fields)
        return self.write(name, dump(document))

    def simple(self):
        return self.config(
            clusters=[{"name": "east", "cluster": {"server": "https://east.example.com"}}],
            users=[{"name": "me", "user": {"token": "SECRET-token"}}],
            contexts=[{"name": "east-admin",
                       "context": {"cluster": "east", "user": "me", "namespace": "team-a"}}],
            **{"current-context": "east-admin"})

    def run_gen(self, *args, env=None, **kwargs):
        return subprocess.run([PROGRAM, *args], env=env or self.env, capture_output=True, text=True,
                              timeout=30, check=False, **kwargs)

    def generate(self, *args, **kwargs):
        done = self.run_gen(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, code, words, *args, **kwargs):
        done = self.run_gen(*args, **kwargs)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(words, done.stderr)
        return done.stderr

    def kubectl(self, kubeconfig, *args):
        return subprocess.run(["kubectl", "--kubeconfig", kubeconfig, *args], env=self.env,
                              capture_output=True, text=True, timeout=60, check=False)


class Secrets(Case):
    """Nothing that could be a credential is in the output, on stderr, or in the log."""

    def plant(self):
        self.marks = []

        def mark(name):
            text = "SECRET-%d-%s" % (len(self.marks), name)
            self.marks.append(text)
            return text

        def data(name):
            return base64.b64encode(mark(name).encode()).decode()

        def file(name):
            self.write("files/" + name, mark("file-" + name))
            return "files/" + name

        extensions = [{"name": mark("extension-name"),
                       "extension": {"deep": [mark("extension"), {"er": mark("extension-deep")}]}}]
        exec_plugin = {
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": mark("exec-command"),
            "args": [mark("exec-arg"), "--token=" + mark("exec-arg-token")],
            "env": [{"name": mark("exec-env-name"), "value": mark("exec-env-value")}],
            "installHint": mark("exec-hint"), "provideClusterInfo": True}
        user = {
            "token": mark("token"), "tokenFile": file("token"),
            "username": mark("username"), "password": mark("password"),
            "client-certificate": file("cert"), "client-certificate-data": data("cert-data"),
            "client-key": file("key"), "client-key-data": data("key-data"),
            "as": mark("as"), "as-uid": mark("as-uid"), "as-groups": [mark("as-group")],
            "as-user-extra": {mark("as-extra-key"): [mark("as-extra-value")]},
            "auth-provider": {"name": mark("provider"), "config": {
                "access-token": mark("access-token"), "id-token": mark("id-token"),
                mark("provider-key"): mark("provider-value")}},
            "exec": exec_plugin, "extensions": extensions, "unknown": mark("unknown-user")}
        cluster = {
            "server": "https://user:%s@east.example.com/%s?t=%s"
                      % (mark("url-password"), mark("url-path"), mark("url-query")),
            "proxy-url": "http://%s:%s@proxy" % (mark("proxy-user"), mark("proxy-password")),
            "certificate-authority": file("ca"), "certificate-authority-data": data("ca-data"),
            "tls-server-name": mark("server-name"), "extensions": extensions,
            "unknown": mark("unknown-cluster")}
        context = {"cluster": "east", "user": "me", "namespace": "team-a",
                   "extensions": extensions, "unknown": mark("unknown-context")}
        other = dict(cluster, server="https://west.example.com/" + mark("other-path"))
        return self.config(
            clusters=[{"name": "east", "cluster": cluster, "unknown": mark("beside-cluster")},
                      {"name": "west", "cluster": other}],
            users=[{"name": "me", "user": user, "unknown": mark("beside-user")}],
            contexts=[{"name": "x", "context": context},
                      {"name": "y", "context": {"cluster": "west", "user": "me"}}],
            preferences={"colors": mark("preferences")}, extensions=extensions,
            unknown=mark("unknown-top"), **{"current-context": "x"})

    def look_for_marks(self, *texts):
        for text in texts:
            self.assertNotIn("SECRET", text)
            for mark in self.marks:
                self.assertNotIn(mark, text)
                # At each of the three positions within base64's groups.
                for shift in range(3):
                    encoded = base64.b64encode(b"x" * shift + mark.encode()).decode()
                    middle = encoded[4:-4]
                    self.assertNotIn(middle, text)
                    self.assertNotIn(middle.replace("+", "-").replace("/", "_"), text)
                self.assertNotIn(mark.encode().hex(), text.lower())

    def test_output_stderr_and_log(self):
        path = self.plant()
        self.assertGreater(len(self.marks), 40)
        forms = [[], ["--context=x"], ["--context=nope"], ["--configmap=a/b"],
                 ["--token-file", self.path("local-token")], ["--output", path],
                 ["--output", self.path("no/such/folder/file")], ["--proxy=https://h"]]
        for form in forms:
            for log_format in ("text", "json"):
                done = self.run_gen("--kubeconfig", path, "--log-level=debug",
                                    "--log-format", log_format, *form)
                self.look_for_marks(done.stdout, done.stderr)
        with open(path, encoding="utf-8") as f:
            self.assertIn("SECRET", f.read())  # the input was not touched

    def test_what_a_broken_file_makes_it_say(self):
        with open(self.plant(), encoding="utf-8") as f:
            text = f.read()
        for cut in range(0, len(text), 97):
            path = self.write("broken", text[:cut])
            done = self.run_gen("--kubeconfig", path, "--log-level=debug")
            self.look_for_marks(done.stdout, done.stderr)
        for old, new in (("- name: ", "- name: ["), ("user:", "user: &a"), (": ", ":\t"),
                         ("'", "\""), ("\n", "\r"), ("token:", "token: !!binary")):
            path = self.write("broken", text.replace(old, new))
            done = self.run_gen("--kubeconfig", path, "--log-level=debug")
            self.look_for_marks(done.stdout, done.stderr)

    def test_what_wrong_types_make_it_say(self):
        self.plant()
        for kind in ("cluster", "user", "context"):
            for value in ("SECRET", ["SECRET"], 5):
                path = self.config(**{kind + "s": [{"name": "x", kind: value}]})
                self.look_for_marks(self.refused(1, "must be a mapping", "--kubeconfig", path))


@unittest.skipUnless(HAVE_KUBECTL, "kubectl is not installed")
class Kubectl(Case):
    def several(self):
        return self.config(
            clusters=[{"name": "east", "cluster": {"server": "https://east.example.com"}},
                      {"name": "west", "cluster": {"server": "https://west.example.com",
                                                   "insecure-skip-tls-verify": True}}],
            users=[{"name": "admin", "user": {"token": "SECRET"}},
                   {"name": "viewer", "user": {"username": "SECRET", "password": "SECRET"}}],
            contexts=[
                {"name": "east-admin",
                 "context": {"cluster": "east", "user": "admin", "namespace": "team-a"}},
                {"name": "west-view", "context": {"cluster": "west", "user": "viewer"}}],
            **{"current-context": "west-view"})

    def names(self, kubeconfig, what):
        """kubectl prints them in random order."""
        args = {"contexts": ["get-contexts", "-o", "name"], "clusters": ["get-clusters"],
                "users": ["get-users"], "current": ["current-context"]}[what]
        lines = self.kubectl(kubeconfig, "config", *args).stdout.splitlines()
        return sorted(line for line in lines if line != "NAME")

    def test_other_clusters_are_left_out(self):
        fake = self.path("fake")
        done = self.run_gen("--kubeconfig", self.several(), "-o", fake)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("contexts of other clusters were left out", done.stderr)
        self.assertIn("kept=west-view leftOut=east-admin count=1", done.stderr)
        self.assertEqual(self.names(fake, "contexts"), ["west-view"])
        self.assertEqual(self.names(fake, "clusters"), ["west"])
        self.assertEqual(self.names(fake, "users"), ["viewer"])
        self.assertEqual(self.names(fake, "current"), ["west-view"])

    def test_the_current_context_decides(self):
        fake = self.path("fake")
        real = self.several()
        self.kubectl(real, "config", "use-context", "east-admin")
        self.kubectl(real, "config", "set-context", "east-view", "--cluster=east", "--user=viewer")
        self.kubectl(real, "config", "set-context", "west-admin", "--cluster=west", "--user=admin")
        done = self.run_gen("--kubeconfig", real, "-o", fake)
        self.assertIn("kept=east-admin leftOut=", done.stderr)
        self.assertIn("count=2", done.stderr)
        self.assertEqual(self.names(fake, "contexts"), ["east-admin", "east-view"])
        self.assertEqual(self.names(fake, "clusters"), ["east"])
        self.assertEqual(self.names(fake, "users"), ["admin", "viewer"])

    def test_all_contexts(self):
        real = self.several()
        fake = self.path("fake")
        done = self.run_gen("--kubeconfig", real, "--all-contexts", "-o", fake)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("belong to several clusters", done.stderr)
        for what in ("contexts", "clusters", "users", "current"):
            self.assertEqual(self.names(fake, what), self.names(real, what))
        for args in (["get-contexts"], ["get-contexts", "east-admin"]):
            self.assertEqual(sorted(self.kubectl(fake, "config", *args).stdout.splitlines()),
                             sorted(self.kubectl(real, "config", *args).stdout.splitlines()))
        view = json.loads(self.kubectl(fake, "config", "view", "-o", "json").stdout)
        self.assertEqual({c["cluster"]["server"] for c in view["clusters"]},
                         {"http://127.0.0.1:5443"})

    def test_one_context(self):
        fake = self.path("fake")
        done = self.run_gen("--kubeconfig", self.several(), "--context", "east-admin", "-o", fake)
        self.assertEqual((done.returncode, "WARN" in done.stderr), (0, False), done.stderr)
        self.assertEqual(self.names(fake, "contexts"), ["east-admin"])
        self.assertEqual(self.names(fake, "current"), ["east-admin"])

    def test_several_clusters_and_none_is_current(self):
        real = self.several()
        self.kubectl(real, "config", "set-context", "nowhere", "--cluster=none", "--user=me")
        self.kubectl(real, "config", "use-context", "nowhere")
        self.refused(1, "the current context names none of them", "--kubeconfig", real)
        self.kubectl(real, "config", "delete-context", "nowhere")
        self.kubectl(real, "config", "unset", "current-context")
        said = self.refused(1, "the current context names none of them: choose one with --context", "--kubeconfig", real)
        self.assertIn("east-admin", said)
        self.assertIn("west-view", said)
        fake = self.path("fake")
        for flag, contexts in (("--context=west-view", ["west-view"]),
                               ("--all-contexts", ["east-admin", "west-view"])):
            self.generate("--kubeconfig", real, flag, "-o", fake)
            self.assertEqual(self.names(fake, "contexts"), contexts)

    def test_requests_reach_the_proxy_in_the_right_namespace(self):
        server = FakeServer()
        self.addCleanup(server.close)
        fake = self.path("fake")
        self.generate("--kubeconfig", self.several(), "--all-contexts", "--proxy", server.url,
                      "-o", fake)
        self.kubectl(fake, "--context", "east-admin", "get", "pods")
        self.kubectl(fake, "get", "--raw", "/api/v1/nodes")
        paths = [path for path, _ in server.requests]
        self.assertTrue(any(p.startswith("/api") for p in paths), paths)
        self.assertIn("/api/v1/nodes", paths)
        self.assertEqual({auth for _, auth in server.requests}, {None})

    def test_merged_list(self):
        self.config("a", contexts=[{"name": "x", "context": {"cluster": "c", "user": "u"}}])
        self.config("b", clusters=[{"name": "c", "cluster": {"server": "https://h"}}],
                    users=[{"name": "u", "user": {}}], **{"current-context": "x"})
        self.env["KUBECONFIG"] = ":".join([self.path("a"), self.path("gone"), self.path("b")])
        fake = self.path("fake")
        self.generate("-o", fake)
        view = json.loads(self.kubectl(fake, "config", "view", "--minify", "-o", "json").stdout)
        self.assertEqual(view["contexts"][0]["context"], {"cluster": "c", "user": "u"})

    def test_configmap(self):
        manifest = yaml.safe_load(self.generate("--kubeconfig", self.several(),
                                                "--configmap=team-a/fake"))
        self.assertEqual(manifest["kind"], "ConfigMap")
        self.assertEqual(manifest["metadata"], {"name": "fake", "namespace": "team-a"})
        fake = self.write("fake", manifest["data"]["kubeconfig"])
        self.assertEqual(self.kubectl(fake, "config", "current-context").stdout, "west-view\n")

    def test_plain_scalars_mean_what_they_mean_to_kubectl(self):
        for word in ("n", "y", "yes", "No", "on", "OFF", "True", "tRue", "~", "null", "nulL", ".inf",
                     "0x1F", "0o17", "017", "08", "0b11", "1_000", ".5", "1.", "1e3", "+1", "-1",
                     "1a", "12:30", "2001-01-01", "_1", ".e1", "99999999999999999999", "0x", "-"):
            path = self.write("config", "contexts: [{name: x, context: {cluster: c, namespace: "
                              "%s }}]\nclusters: [{name: c, cluster: {server: 'http://h'}}]\n" % word)
            view = self.kubectl(path, "config", "view", "-o",
                                "jsonpath={.contexts[0].context.namespace}")
            done = self.run_gen("--kubeconfig", path)
            self.assertEqual(done.returncode == 0, view.returncode == 0, word)
            if done.returncode == 0:
                context = yaml.safe_load(done.stdout)["contexts"][0]["context"]
                self.assertEqual(context.get("namespace", ""), view.stdout, word)


# What a YAML reader could take for something else than the string that it is.
ODD_NAMES = ["yes", "No", "null", "~", "123", "1.5", "0x1F", "1e3", "0o17", "1_000", ".5", "12:30",
             "2001-01-01", "a: b", "a #b", "- a", "&a", "*a", "!a", "%a", "@a", "`a`", "'a'", '"a"',
             "{a}", "[a]", "a,b", "=", "<<", "?", "|", ">", " a ", "a\tb", "a\\b", "ä€🚀", "NaN",
             ".inf", "a:", ":a", "#a", "x" * 1000, "on", "y"]


class Clients(Case):
    """Other readers see exactly the names that were put in, and reach the proxy."""

    def odd(self):
        # As JSON, where every string is quoted: PyYAML's own output is not the same to all readers.
        return self.config(
            dump=lambda document: json.dumps(document, ensure_ascii=False),
            clusters=[{"name": n, "cluster": {"server": "https://h"}} for n in ODD_NAMES],
            users=[{"name": n, "user": {}} for n in ODD_NAMES],
            contexts=[{"name": n, "context": {"cluster": n, "user": n}} for n in ODD_NAMES],
            **{"current-context": ODD_NAMES[0]})

    def test_names_in_pyyaml(self):
        made = yaml.safe_load(self.generate("--kubeconfig", self.odd()))
        self.assertEqual([c["name"] for c in made["contexts"]], ODD_NAMES)
        self.assertEqual([c["context"]["cluster"] for c in made["contexts"]], ODD_NAMES)
        self.assertEqual([u["name"] for u in made["users"]], ODD_NAMES)

    @unittest.skipUnless(HAVE_KUBECTL, "kubectl is not installed")
    def test_names_in_kubectl(self):
        fake = self.write("fake", self.generate("--kubeconfig", self.odd()))
        view = json.loads(self.kubectl(fake, "config", "view", "-o", "json").stdout)
        self.assertEqual(sorted(c["name"] for c in view["contexts"]), sorted(ODD_NAMES))

    @unittest.skipUnless(HAVE_PYTHON_CLIENT, "python3-kubernetes is not installed")
    def test_python_client(self):
        server = FakeServer()
        self.addCleanup(server.close)
        fake = self.path("fake")
        self.generate("--kubeconfig", self.simple(), "--proxy", server.url, "-o", fake)
        done = subprocess.run([PYTHON, os.path.join(HERE, "clients", "list_pods.py"), fake],
                              env=self.env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout),
                         {"contexts": ["east-admin"], "current": "east-admin", "pods": 0})
        self.assertEqual(server.requests, [("/api/v1/pods", None)])

    def test_javascript_packages_are_locked(self):
        """By their hashes, wherever they come from, and these are what is installed."""
        with open(LOCK, encoding="utf-8") as f:
            locked = {name: p for name, p in json.load(f)["packages"].items() if name}
        self.assertGreater(len(locked), 50)
        for name, package in locked.items():
            self.assertRegex(package["integrity"], "^sha512-[A-Za-z0-9+/]{86}==$", name)
            self.assertNotIn("resolved", package, name)
        client = install_js_client()
        if client is None:
            self.skipTest("@kubernetes/client-node cannot be installed with npm")
        with open(os.path.join(client, "node_modules", ".package-lock.json"), encoding="utf-8") as f:
            installed = json.load(f)["packages"]
        self.assertEqual({name: p["integrity"] for name, p in locked.items()},
                         {name: p["integrity"] for name, p in installed.items()})

    def test_javascript_client(self):
        client = install_js_client()
        if client is None:
            self.skipTest("@kubernetes/client-node cannot be installed with npm")
        server = FakeServer()
        self.addCleanup(server.close)
        fake = self.path("fake")
        self.generate("--kubeconfig", self.simple(), "--proxy", server.url, "-o", fake)
        done = self.run_js(client, fake)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout),
                         {"contexts": ["east-admin"], "current": "east-admin", "pods": 0})
        self.assertEqual(server.requests, [("/api/v1/pods", None)])
        odd = self.write("odd", self.generate("--kubeconfig", self.odd(), "--proxy", server.url))
        done = self.run_js(client, odd)
        self.assertEqual(json.loads(done.stdout)["contexts"], ODD_NAMES)

    def run_js(self, client, kubeconfig):
        # Node finds packages beside the script.
        script = shutil.copy(os.path.join(HERE, "clients", "list_pods.mjs"), self.dir)
        if not os.path.exists(self.path("node_modules")):
            os.symlink(os.path.join(client, "node_modules"), self.path("node_modules"))
        return subprocess.run(["node", "--preserve-symlinks-main", script, kubeconfig],
                              env=self.env, capture_output=True, text=True, timeout=60, check=False)


class Token(Case):
    """Each client sends the local token, in one of the two forms that localproxy takes."""

    def setUp(self):
        super().setUp()
        self.server = FakeServer()
        self.addCleanup(self.server.close)
        self.token_path = self.path("token")
        self.fake = self.path("fake")
        done = self.run_gen("--kubeconfig", self.simple(), "--proxy", self.server.url,
                            "--token-file", self.token_path, "-o", self.fake)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("created a token", done.stderr)
        with open(self.token_path, encoding="ascii") as f:
            self.token = f.read().strip()
        self.assertNotIn(self.token, done.stderr)
        # For this cluster: behind it stands what its URL comes to.
        with open(self.fake, encoding="utf-8") as f:
            scoped = re.search(re.escape(self.token) + r"\.[0-9a-f]{8}\b", f.read())[0]
        basic = base64.b64encode(("cmesh:" + scoped).encode()).decode()
        self.forms = {"Bearer " + scoped, "Basic " + basic}

    def check(self):
        self.assertGreater(len(self.server.requests), 0)
        for _, authorization in self.server.requests:
            self.assertIn(authorization, self.forms)

    def test_files(self):
        for path in (self.token_path, self.fake):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        again = self.generate("--kubeconfig", self.path("config"), "--proxy", self.server.url,
                              "--token-file", self.token_path)
        with open(self.fake, encoding="utf-8") as f:
            self.assertEqual(again, f.read())

    @unittest.skipUnless(HAVE_KUBECTL, "kubectl is not installed")
    def test_kubectl(self):
        self.kubectl(self.fake, "get", "--raw", "/api/v1/pods")
        self.check()

    @unittest.skipUnless(HAVE_PYTHON_CLIENT, "python3-kubernetes is not installed")
    def test_python_client(self):
        subprocess.run([PYTHON, os.path.join(HERE, "clients", "list_pods.py"), self.fake],
                       env=self.env, capture_output=True, timeout=60, check=True)
        self.check()

    def test_javascript_client(self):
        client = install_js_client()
        if client is None:
            self.skipTest("@kubernetes/client-node cannot be installed with npm")
        done = Clients.run_js(self, client, self.fake)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check()

    def test_wrong_token_files(self):
        for content, words in (("", "0 characters"), ("short", "5 characters"),
                               ("SECRET-0123456789\nSECRET-0123456789", "one line")):
            path = self.write("wrong", content)
            said = self.refused(1, words, "--kubeconfig", self.path("config"), "--token-file", path)
            self.assertNotIn("SECRET", said)

    def test_shared(self):
        """The operator's user may read the kubeconfig; only localproxy's may read the file."""
        shared = self.path("shared")
        args = ["--kubeconfig", self.path("config"), "--token-file", self.token_path, "--shared"]
        old_umask = os.umask(0o077)
        self.addCleanup(os.umask, old_umask)
        self.generate(*args, "-o", shared)
        self.assertEqual(stat.S_IMODE(os.stat(shared).st_mode), 0o644)
        self.assertEqual(stat.S_IMODE(os.stat(self.token_path).st_mode), 0o600)

    def test_not_in_a_configmap(self):
        args = ["--kubeconfig", self.path("config"), "--configmap=a/b"]
        words = "cannot be combined with a token"
        self.refused(2, words, *args, "--token-file", self.token_path)
        self.env.pop("CMESH_TOKEN_FILE")
        self.refused(2, words, *args)
        self.assertNotIn("token:", self.generate(*args, "--token-file=off"))


class Output(Case):
    def test_replaced_whole_and_private(self):
        real = self.simple()
        fake = self.write("fake", "old")
        os.chmod(fake, 0o644)
        before = os.stat(fake).st_ino
        old_umask = os.umask(0)
        self.addCleanup(os.umask, old_umask)
        self.generate("--kubeconfig", real, "--output=" + fake)
        self.assertEqual(stat.S_IMODE(os.stat(fake).st_mode), 0o600)
        self.assertNotEqual(os.stat(fake).st_ino, before)
        self.assertEqual(sorted(os.listdir(self.dir)), ["config", "fake"])
        with open(fake, encoding="utf-8") as f:
            self.assertEqual(f.read(), self.generate("--kubeconfig", real, "-o", "-"))

    def test_never_over_the_real_one(self):
        real = self.simple()
        os.symlink("config", self.path("alias"))
        for output in (real, self.path("alias"), os.path.join(self.dir, ".", "config")):
            self.refused(1, "its credentials would be lost", "--kubeconfig", real, "-o", output)
        self.env["KUBECONFIG"] = self.path("gone") + ":" + real
        self.refused(1, "its credentials would be lost", "-o", real)
        with open(real, encoding="utf-8") as f:
            self.assertIn("SECRET", f.read())

    def test_places_that_cannot_be_written(self):
        real = self.simple()
        self.refused(1, "cannot create", "--kubeconfig", real, "-o", self.path("no/such/file"))
        self.refused(1, "", "--kubeconfig", real, "-o", self.dir)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PROGRAM, "--kubeconfig", real], env=self.env, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output", done.stderr)

    def test_environment_gives_flags(self):
        real = self.simple()
        self.env["CMESH_KUBECONFIG"] = real
        self.env["CMESH_PROXY"] = "http://localhost:1"
        self.assertIn("server: http://localhost:1\n", self.generate())
        self.assertIn("server: http://localhost:2\n", self.generate("--proxy", "http://localhost:2"))

    def test_https_proxy(self):
        ca = self.write("ca", "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n")
        made = yaml.safe_load(self.generate("--kubeconfig", self.simple(), "--proxy=https://p:5443",
                                            "--proxy-ca", ca))
        cluster = made["clusters"][0]["cluster"]
        self.assertEqual(sorted(cluster), ["certificate-authority-data", "server"])
        with open(ca, "rb") as f:
            self.assertEqual(base64.b64decode(cluster["certificate-authority-data"]), f.read())
        key = self.write("key", "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
        self.refused(1, "contains a private key", "--kubeconfig", self.path("config"),
                     "--proxy=https://p", "--proxy-ca", key)


class InCluster(Case):
    def test_names(self):
        self.env.update(KUBERNETES_SERVICE_HOST="10.0.0.1", KUBERNETES_SERVICE_PORT="443")
        made = yaml.safe_load(self.generate("--in-cluster"))
        self.assertEqual(made["current-context"], "in-cluster")
        self.assertIn("namespace", made["contexts"][0]["context"])
        # Without a kubeconfig it is what a pod gets by itself.
        self.assertEqual(yaml.safe_load(self.generate()), made)

    def test_no_pod(self):
        self.refused(1, "not running in a pod", "--in-cluster")


class ServiceAccount(Case):
    """What takes the place of a pod's; tests of the guide and of examples use it."""

    def setUp(self):
        super().setUp()
        del self.env["CMESH_TOKEN_FILE"]
        self.env["XDG_STATE_HOME"] = self.path("state")
        self.folder = self.path("account")
        self.args = ["--kubeconfig", self.simple(), "--local-tls=auto",
                     "--service-account", self.folder]

    def read(self, path):
        with open(path, encoding="utf-8") as f:
            return f.read()

    def test_files_and_variables(self):
        printed = self.generate(*self.args)
        self.assertEqual(printed, "KUBERNETES_SERVICE_HOST=127.0.0.1\nKUBERNETES_SERVICE_PORT=5443\n"
                         "KUBERNETES_SERVICE_PORT_HTTPS=5443\n")
        self.assertEqual(stat.S_IMODE(os.stat(self.folder).st_mode), 0o700)
        self.assertEqual(sorted(os.listdir(self.folder)), ["ca.crt", "namespace", "token"])
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, name)
        self.assertEqual(self.read(self.folder + "/namespace"), "team-a")
        # Those of the user, by which localproxy knows its clients and they know localproxy.
        for name in ("ca.crt", "token"):
            own = self.read(os.path.join(self.env["XDG_STATE_HOME"], "cmesh", name))
            found = self.read(os.path.join(self.folder, name)).strip()
            self.assertRegex(found, re.escape(own.strip()) + r"(\.[0-9a-f]{8})?\Z", name)

    def test_a_kubeconfig_besides(self):
        fake = self.path("fake")
        self.assertEqual(self.generate(*self.args, "-o", fake, "--shared"), "")
        for path in (fake, self.folder + "/token"):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o644, path)
        self.assertIn(self.read(self.folder + "/token"), self.read(fake))

    def test_what_it_says_of_the_pod(self):
        printed = self.generate(*self.args, "--namespace=team-b", "--proxy=https://[::1]:443")
        self.assertEqual(self.read(self.folder + "/namespace"), "team-b")
        self.assertIn("KUBERNETES_SERVICE_HOST=::1\nKUBERNETES_SERVICE_PORT=443\n", printed)

    def test_a_real_one_stays(self):
        os.mkdir(self.folder)
        os.symlink("..2026", self.folder + "/..data")
        self.write("account/token", "real")
        said = self.refused(1, "is the service account of a pod", *self.args)
        self.assertIn("not all was written", said)
        self.assertEqual(self.read(self.folder + "/token"), "real")

    def test_usage(self):
        account = "--service-account=" + self.folder
        for words, args in (
                ("by what localproxy is verified", [account, "--local-tls=off"]),
                ("clients do not start without a token", [account, "--local-tls=auto",
                                                          "--token-file=off"]),
                ("--service-account and --configmap", [account, "--local-tls=auto",
                                                       "--configmap=a/b"]),
                ("--namespace must be", [account, "--local-tls=auto", "--namespace=A"]),
                ("must begin with https://", [account, "--local-tls=auto", "--proxy=http://h"])):
            self.refused(2, words, "--kubeconfig", self.path("config"), *args)
        self.assertFalse(os.path.exists(self.folder))


class BadInput(Case):
    def test_usage(self):
        for words, args in (
                ("unknown flag --nope", ["--nope"]),
                ("--context needs a value", ["--context"]),
                ('unexpected argument "extra"', ["extra"]),
                ("cannot be combined", ["--in-cluster", "--context=x"]),
                ("cannot be combined", ["--in-cluster", "--kubeconfig=x"]),
                ("--proxy: the URL must begin with", ["--proxy=127.0.0.1:5443"]),
                ("--proxy: the URL must begin with", ["--proxy=ftp://h"]),
                ("--proxy: the URL has no host", ["--proxy=http://"]),
                ("--proxy: the URL's port", ["--proxy=http://h:x"]),
                ("--proxy: the URL contains a user", ["--proxy=http://u:SECRET@h"]),
                ("--proxy: the URL has a path", ["--proxy=http://h/api"]),
                ("--proxy-ca is for", ["--proxy-ca=x"]),
                ("--configmap: write NAMESPACE/NAME", ["--configmap=x"]),
                ("--configmap: write NAMESPACE/NAME", ["--configmap=a/b/c"]),
                ("--configmap: write NAMESPACE/NAME", ["--configmap=A/b"]),
                ("--configmap: write NAMESPACE/NAME", ["--configmap=a/"]),
                ("--log-level", ["--log-level=loud"])):
            self.assertNotIn("SECRET", self.refused(2, words, *args))

    def test_help_and_version(self):
        self.assertIn("Exit codes:", self.generate("--help"))
        self.assertRegex(self.generate("--version"), r"^kubeconfig-gen \d+\.\d+\.\d+(-\w+)?\n$")

    def test_files(self):
        self.refused(1, "no kubeconfig")
        self.refused(1, "cannot open", "--kubeconfig", self.path("gone"))
        self.refused(1, "Is a directory", "--kubeconfig", self.dir)
        self.refused(1, "empty", "--kubeconfig", self.write("empty", ""))
        self.refused(1, "byte 0", "--kubeconfig", self.write("binary", bytes(range(256)) * 16))
        self.refused(1, "nested too deeply", "--kubeconfig",
                     self.write("deep", "a: " + "[" * 900 + "]" * 900))
        self.refused(1, "larger than the limit", "--kubeconfig",
                     self.write("huge", "a: '" + "x" * (17 << 20) + "'"))
        self.refused(1, "aliases expand", "--kubeconfig", self.write(
            "bomb", "a: &a " + "x" * 100000 + "\nb: [" + "*a, " * 100 + "]\n"))
        self.refused(1, "kind must be Config", "--kubeconfig",
                     self.write("pod", "apiVersion: v1\nkind: Pod\n"))
        self.refused(1, "there are: east-admin", "--kubeconfig", self.simple(), "--context=gone")

    @unittest.skipUnless(os.getuid() == 0, "needs root to become somebody else")
    def test_unreadable(self):
        os.chmod(self.dir, 0o711)
        real = self.simple()
        os.chmod(real, 0o600)
        program = shutil.copy(PROGRAM, self.dir)
        nobody = pwd.getpwnam("nobody")
        done = subprocess.run([program, "--kubeconfig", real], env=self.env, capture_output=True,
                              text=True, timeout=30, check=False, user=nobody.pw_uid)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not readable for this user", done.stderr)

    def test_nothing_is_made_for_nothing(self):
        """No token and no authority before it is known that there is something to write."""
        self.env.pop("CMESH_TOKEN_FILE")
        self.env["XDG_STATE_HOME"] = self.path("state")
        real = self.simple()
        dangling = self.config("dangling", clusters=[{"name": "c", "cluster": {"server": "https://h"}}],
                               contexts=[{"name": "x", "context": {"cluster": "c", "user": "gone"}}],
                               **{"current-context": "x"})
        account = "--service-account=" + self.path("account")
        for words, args in (
                ("no kubeconfig", ["--context=foo"]),
                ("cannot open", ["--kubeconfig", self.path("nowhere")]),
                ("there is no context", ["--kubeconfig", real, "--context=foo"]),
                ("its credentials would be lost", ["--kubeconfig", real, "-o", real]),
                ("there is no user named", ["--kubeconfig", dangling]),
                ("not running in a pod", ["--in-cluster"]),
                ("no context to take it from", [account]),
                ("there is no context", [account, "--kubeconfig", real, "--context=foo", "--namespace=n"])):
            said = self.refused(1, words, "--local-tls=auto", *args)
            self.assertNotIn("created", said)
            self.assertNotIn("made", said)
            self.assertFalse(os.path.exists(self.path("state")), args)

    def test_its_own_work(self):
        """As with a KUBECONFIG that leads to localproxy already."""
        self.env.pop("CMESH_TOKEN_FILE")
        self.env["XDG_STATE_HOME"] = self.path("state")
        for proxy in ("http://127.0.0.1:5443", "https://127.0.0.1:5443"):
            for more in ([], ["--all-contexts"]):
                fake = self.path("fake")
                self.generate("--kubeconfig", self.simple(), "--proxy", proxy, "-o", fake, *more)
                self.env["KUBECONFIG"] = fake
                self.refused(1, fake + ": kubeconfig-gen wrote this kubeconfig for the operator",
                             "-o", self.path("other"))
        self.assertFalse(os.path.exists(self.path("other")))

    def test_no_current_context(self):
        path = self.config(contexts=[{"name": "x", "context": {"cluster": "c"}}],
                           clusters=[{"name": "c", "cluster": {"server": "https://h"}}])
        done = self.run_gen("--kubeconfig", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn("no current context", done.stderr)
        self.assertNotIn("current-context", done.stdout)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
