# SPDX-License-Identifier: Apache-2.0
"""Which clients take a kubeconfig in which form: the one that kubeconfig-gen writes is for all of
them, and what others are for is known. Prints the table, with why not."""

import json
import os
import re
import shutil
import subprocess

import harness
import real_clients
import releases
import upstream

HERE = os.path.dirname(os.path.abspath(__file__))
# Of a kubeconfig. "plain" is what 0.1.0 wrote.
FORMS = ("tls", "plain", "plain, token alone", "plain, URL alone")
YES = dict.fromkeys(FORMS, True)
TOKEN_IN_HEADER = {**YES, "plain, URL alone": False}
# client-go reads the user of a context for https alone.
IN_GO = {**YES, "plain, token alone": False}
NO_USER_IN_URL = {**YES, "plain": False, "plain, URL alone": False}


class Client:
    """Lists the pods of all namespaces, as its kubeconfig says."""

    def __init__(self, name, command, takes):
        self.name = name
        self.command = command  # of the kubeconfig's path
        self.takes = takes

    def run(self, kubeconfig, folder):
        """None, or why not."""
        done = subprocess.run(
            self.command(kubeconfig), cwd=folder, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=60, check=False,
            env=harness.clean_environment(HOME=folder),
        )  # fmt: skip
        return None if done.returncode == 0 else self.why(done.stderr + done.stdout)

    @staticmethod
    def why(said):
        lines = [line.strip() for line in said.splitlines() if re.search("rror|nauthorized|tatus", line)]
        return (lines or said.strip().splitlines() or ["it says nothing"])[-1]


class Informer(Client):
    """client-go's, which goes on for as long as it may."""

    def run(self, kubeconfig, folder):
        env = harness.clean_environment(HOME=folder)
        client = real_clients.Client(self.name, self.command(kubeconfig), ["json:pods"], env=env)
        try:
            harness.wait_for(lambda: client.synced() or self.errors(client), "it comes to something")
            return None if client.synced() else self.errors(client)[0]
        finally:
            client.kill()

    @staticmethod
    def errors(client):
        return [e.fields["message"] for e in list(client.events) if e.kind == "error"]


def curl(kubeconfig):
    """As the documents say to use it, with what the file has."""
    with open(kubeconfig, encoding="utf-8") as f:
        found = dict(re.findall(r"^ +(server|token|certificate-authority-data): \"?([^\"\n]+)", f.read(), re.M))
    script = f"curl -sS --fail --max-time 20 {found['server']}/api/v1/pods"
    if "token" in found:
        script += f" -H 'Authorization: Bearer {found['token']}'"
    if "certificate-authority-data" in found:
        script += f" --cacert <(base64 -d <<<{found['certificate-authority-data']})"
    return ["bash", "-c", script]


class ClientFormsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.asked = []
        _, self.kubeconfig = self.plain_upstream(upstream.always(self.answer))
        self.env = {"XDG_STATE_HOME": self.folder, "CMESH_TOKEN_FILE": ""}
        self.proxy_process = self.proxy(
            None, self.kubeconfig, ["--resume-doubt=0", "--no-rules=passthrough"], env=self.env
        )
        self.missing = []
        self.table = {}

    def answer(self, peer, request):
        self.asked.append(request.target)
        if "sendInitialEvents=" in request.target:  # as by a server from before
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}
            peer.respond(422, json.dumps(status).encode())
            return
        if "watch=" in request.target:
            peer.send_response_head(200, [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")])
            peer.wait_closed()
            return
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
        peer.respond(200, json.dumps({**body, "major": "1", "minor": "36"}).encode())

    # ---- the files ----

    def generate(self, proxy):
        done = subprocess.run(
            [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig, f"--proxy={proxy}"],
            capture_output=True, text=True, check=True, env=harness.clean_environment(**self.env),
        )  # fmt: skip
        return done.stdout

    def write_forms(self):
        tls = self.generate(f"https://{self.proxy_process.listen}")
        plain = self.generate(self.proxy_process.url)
        texts = {
            "tls": tls,
            "plain": plain,
            "plain, token alone": re.sub("(?<=http://)cmesh:[^@]+@", "", plain),
            "plain, URL alone": re.sub(r"(?m)^ +token: .*\n", "    x-unknown: y\n", plain),
        }
        self.assertEqual(set(FORMS), set(texts))
        self.assertEqual(4, len(set(texts.values())))
        return {form: self.path(f"form-{i}", text) for i, (form, text) in enumerate(texts.items())}

    # ---- the clients ----

    def go_clients(self):
        for modern, version in ((False, "0.20"), (True, "0.36")):
            folder, why = real_clients.go_folder(modern)
            if folder is None:
                self.missing.append(f"client-go {version}: {why}")
                continue
            command = [os.path.join(folder, "informer")]
            yield Informer(f"client-go {version}", lambda k, c=command: [*c, f"--kubeconfig={k}"], IN_GO)

    def kubectls(self):
        def get(program):
            return lambda k: [program, "--kubeconfig", k, "get", "--raw", "/api/v1/pods"]

        if shutil.which("kubectl"):
            yield Client("kubectl of the machine", get("kubectl"), IN_GO)
        folders, why = releases.folders()
        if folders is None:
            self.missing.append(why)
        for release, folder in zip(releases.RELEASES, folders or ()):
            yield Client(f"kubectl {release.kubectl_version}", get(os.path.join(folder, "kubectl")), IN_GO)

    def js_clients(self):
        for version, packages, takes in (
            ("1.3.0", real_clients.PROGRAMS, YES),
            ("2.0.1", real_clients.NEWEST_JS, NO_USER_IN_URL),
        ):
            folder = real_clients.install_js_client(packages)
            if folder is None:
                self.missing.append(f"JavaScript {version}: its packages cannot be had")
                continue
            node = real_clients.newest_node(folder)
            place = self.path(f"js-{version}")
            os.mkdir(place)
            *_, script = real_clients.js_script("list_pods.mjs", place, folder)
            yield Client(f"JavaScript {version}",
                         lambda k, n=node, s=script: [n, "--preserve-symlinks-main", s, k], takes)  # fmt: skip

    def python_clients(self):
        for name, package, script, takes in (
            ("Python (urllib3)", "kubernetes", "list_pods.py", TOKEN_IN_HEADER),
            ("Python (aiohttp)", "aiohttp", "list_pods_aiohttp.py", {**YES, "plain": False}),
        ):
            if real_clients.have_python(package):
                yield Client(name, lambda k, s=script: [*real_clients.python_script(s), k], takes)
            else:
                self.missing.append(f"{name}: there is no package {package}")

    def clients(self):
        yield from self.go_clients()
        yield from self.kubectls()
        yield from self.js_clients()
        yield from self.python_clients()
        if real_clients.have_java():
            program = real_clients.java_program(self.folder, "ListPods")
            yield Client("Java (JDK)", lambda k: [*program, k], TOKEN_IN_HEADER)
        else:
            self.missing.append("Java: there is no JDK")
        yield Client("curl", curl, YES)

    # ---- the table ----

    def print_table(self):
        print()
        width = max(map(len, self.table))
        columns = [max(len(form), 3) for form in FORMS]
        row = "| {:<%d} | " % width + " | ".join("{:<%d}" % c for c in columns) + " |"
        print(row.format("client", *FORMS))
        print(row.format("-" * width, *("-" * c for c in columns)))
        for name, found in self.table.items():
            print(row.format(name, *("no" if found[form] else "yes" for form in FORMS)))
        for name, found in self.table.items():
            for form, why in found.items():
                if why:
                    print(f"{name}, {form}: {self.without_token(why)[:160]}")
        for line in self.missing:
            print(f"not here: {line}")

    def without_token(self, text):
        with open(self.path("cmesh/token"), encoding="ascii") as f:
            token = f.read().strip()
        return re.sub(re.escape(token) + r"[.\w]*", "TOKEN", text)

    def test_every_client_takes_what_is_written(self):
        forms = self.write_forms()
        expected = {}
        for client in self.clients():
            expected[client.name] = client.takes
            self.table[client.name] = found = {}
            for form, path in forms.items():
                self.asked.clear()
                found[form] = client.run(path, self.folder)
                reached = any(t.startswith("/api/v1/pods") for t in self.asked)
                self.assertEqual(found[form] is None, reached, (client.name, form, found[form]))
        self.print_table()
        took = {n: {f: w is None for f, w in found.items()} for n, found in self.table.items()}
        self.assertEqual(set(), {n for n, found in took.items() if not found["tls"]})
        self.assertEqual(expected, took)


if __name__ == "__main__":
    harness.main()
