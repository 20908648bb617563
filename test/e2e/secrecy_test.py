# SPDX-License-Identifier: Apache-2.0
"""Who shares user and process namespace with a program of ours learns no credential from it."""

import glob
import json
import os
import signal
import subprocess

import harness
import upstream

USER = "65532"
UNPRIVILEGED = ["--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all",
                "--bounding-set=-all", "--no-new-privs"]  # fmt: skip
RULES = harness.rules_document(harness.limit(["pods"], "app=foo"))
TOKEN = "upstream-token-4711-not-to-be-seen"
HIDDEN = ("mem", "environ", "root", "cwd", "maps", "auxv", "fd")


class SecrecyTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        scripted, self.kubeconfig = self.plain_upstream(upstream.always(self.answer))
        self.server = scripted.url

    @staticmethod
    def answer(peer, _request):
        peer.respond(200, b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}\n')

    def readable(self, pid):
        """What of /proc/PID another process of the same user can open or follow."""
        script = (
            'for f in "$@"; do case $f in fd) ls "/proc/$0/fd/" ;; root|cwd) ls "/proc/$0/$f/" ;;'
            ' *) exec 3<"/proc/$0/$f" ;; esac >/dev/null 2>&1 && echo "$f"; done; true'
        )
        # A shell ends when exec cannot redirect: each look has one of its own.
        found = []
        for name in HIDDEN:
            looked = subprocess.run(
                ["setpriv", *UNPRIVILEGED, "sh", "-c", script, str(pid), name],
                check=False, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            found += looked.stdout.split()
        return found

    def start(self, name, args, env=None):
        log = open(self.path(f"{name}.log"), "ab")  # pylint: disable=consider-using-with
        self.addCleanup(log.close)
        folder = self.path(f"{name}.d")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        # The hard limit is that of most containers.
        process = subprocess.Popen(
            ["prlimit", "--core=unlimited", "setpriv", "--pdeathsig", "KILL", *UNPRIVILEGED,
             harness.program(name), *args],
            cwd=folder, stderr=log, stdout=log, stdin=subprocess.DEVNULL,
            env=harness.clean_environment(**(env or {})),
        )  # fmt: skip
        self.addCleanup(harness.end_process, process)
        return process, folder

    def start_localproxy(self, **env):
        ready = self.path("ready.json")
        rules = self.path("rules.json", json.dumps(RULES))
        kubeconfig = self.path("user.kubeconfig", self.user_kubeconfig())
        for path in (rules, kubeconfig):
            os.chmod(path, 0o644)
        args = ["--listen=127.0.0.1:0", "--admin=127.0.0.1:0", f"--rules={rules}",
                f"--kubeconfig={kubeconfig}", f"--ready-file={ready}"]  # fmt: skip
        process, folder = self.start("localproxy", [*args, "--token-file=off"], env)
        harness.wait_for(lambda: os.path.exists(ready), "localproxy listens")
        return process, folder

    def user_kubeconfig(self):
        return (
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            f"clusters: [{{name: c, cluster: {{server: '{self.server}'}}}}]\n"
            f"users: [{{name: u, user: {{token: {TOKEN}}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        )


class SameUserTest(SecrecyTestCase):
    def test_localproxy_shows_nothing(self):
        process, _ = self.start_localproxy()
        self.assertEqual([], self.readable(process.pid))

    def test_rulesync_shows_nothing(self):
        ready = self.path("rulesync.json")
        process, _ = self.start(
            "rulesync",
            [f"--from={self.folder}/nothing", f"--to={self.folder}/to.json",
             "--admin=127.0.0.1:0", f"--ready-file={ready}"],
        )  # fmt: skip
        harness.wait_for(lambda: os.path.exists(ready), "rulesync listens")
        self.assertEqual([], self.readable(process.pid))

    def test_manager_shows_nothing(self):
        kubeconfig = self.path("user.kubeconfig", self.user_kubeconfig())
        ready = self.path("manager.json")
        os.chmod(kubeconfig, 0o644)
        process, _ = self.start(
            "manager",
            [f"--kubeconfig={kubeconfig}", "--admin=127.0.0.1:0", f"--ready-file={ready}",
             "--namespace=default"],
        )  # fmt: skip
        harness.wait_for(lambda: os.path.exists(ready), "manager listens")
        self.assertEqual([], self.readable(process.pid))

    def test_developers_may_look(self):
        process, _ = self.start_localproxy(CMESH_ALLOW_CORE_DUMPS="true")
        self.assertEqual(list(HIDDEN), self.readable(process.pid))


class CoreTest(SecrecyTestCase):
    """A program that crashes leaves nothing of what it knew."""

    def setUp(self):
        super().setUp()
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
            self.pattern = f.read().strip()
        if harness.is_sanitized(harness.program("localproxy")):
            self.skipTest("sanitizers switch core dumps off")

    def crash(self, **env):
        """The core dumps in the folder where it ran, and whether the kernel says there is one."""
        process, folder = self.start_localproxy(**env)
        process.send_signal(signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = -signal.SIGSEGV
        self.assertEqual(signal.SIGSEGV, os.WTERMSIG(status))
        cores = glob.glob(os.path.join(folder, "*core*"))
        for path in cores:
            with open(path, "rb") as f:
                self.assertIn(TOKEN.encode(), f.read())
        return cores, os.WCOREDUMP(status)

    def test_no_core(self):
        self.assertEqual(([], False), self.crash())

    def test_developers_get_one(self):
        if self.pattern.startswith(("|", "/")):
            self.skipTest("core dumps go elsewhere on this machine")
        cores, dumped = self.crash(CMESH_ALLOW_CORE_DUMPS="true")
        self.assertTrue(dumped)
        self.assertEqual(1, len(cores))


if __name__ == "__main__":
    harness.main()
