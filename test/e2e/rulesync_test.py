# SPDX-License-Identifier: Apache-2.0
"""rulesync and localproxy together: rules arrive, are kept, and are enforced, whatever is restarted,
missing, full, stalled or forbidden; and at no time anything is shown that no rules show.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import harness
import shard
from admin_test import Metrics


class RuleSyncTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)  # for processes of another user

    def running(self, **more):
        """A shard that enforces generation 1, with somebody who looks on."""
        s = shard.Shard(self, **more)
        s.publish()
        s.start_proxy()
        s.look_on()
        s.start_sync()
        s.wait_enforced()
        return s

    def wait_error(self, s, part, words):
        """Until /status has that error; the whole status."""

        def look():
            status = s.sync.status()
            return status if words in status.get(part, {}).get("error", "") else None

        return harness.wait_for(look, f"{part} says {words}: {s.sync.status()}")


class ArrivalTest(RuleSyncTestCase):
    """Rules that come, good and bad."""

    def test_from_nothing(self):
        s = shard.Shard(self)
        s.start_proxy()
        s.look_on()
        harness.wait_for(lambda: s.onlooker.refusals > 5, "answers are refused")
        s.start_sync()
        self.assertFalse(s.sync.ready())
        self.wait_error(s, "source", "mount: No such file or directory")
        self.assertIn("no rules", s.sync.ask("/readyz").body.decode())
        s.mount.publish(None)
        self.wait_error(s, "source", "has no key rules.json")
        self.assertEqual(0, s.onlooker.lists)
        s.publish()
        s.wait_enforced()
        s.check()

    def test_one_after_the_other(self):
        s = self.running()
        for _ in range(30):
            s.publish()
            s.wait_enforced()
        s.check()
        self.assertEqual(31, s.sync.metric("taken_total"))
        self.assertEqual(31, s.sync.metric("stored_generation"))
        with open(s.stored, encoding="utf-8") as f:
            self.assertEqual(31, json.load(f)["generation"])

    def test_a_burst(self):
        s = self.running()
        before, began = s.sync.metric("taken_total"), time.monotonic()
        for _ in range(100):
            s.publish()
        s.wait_enforced()
        looks = (time.monotonic() - began) / 0.05  # it waits so long for what follows a change
        s.check()
        self.assertLessEqual(s.sync.metric("taken_total") - before, looks + 2)

    def test_what_is_refused_changes_nothing(self):
        s = self.running()
        s.publish(6)
        s.wait_enforced()
        good = shard.document(7)
        broken = json.dumps(good)[:-20]
        unknown = {**good, "spec": {**good["spec"], "faults": []}}
        wrong = {**good, "spec": {"limits": [harness.limit(["pods"], "a in")]}}
        other = {**good, "shard": {"namespace": "cmesh-e2e", "name": "shard-b"}}
        for rules, reason, words in (
            (shard.document(5), "older", "generation 5 is older than generation 6"),
            ({**good, "generation": 6}, "conflict", "need a higher generation"),
            (other, "shard", "rules of shard cmesh-e2e/shard-b, not of cmesh-e2e/shard-a"),
            (broken, "invalid", "line 1, column"),
            ({**good, "apiVersion": "cmesh/v9"}, "invalid", "apiVersion: Unsupported value"),
            ({**good, "checksum": "sha256:" + "0" * 64}, "invalid", "checksum: Invalid value"),
            (unknown, "invalid", "spec.faults: Forbidden: unknown field"),
            (wrong, "invalid", "spec.limits[0].selector"),
            ("", "invalid", "line 1, column 1"),
        ):
            count = f'refused_total{{reason="{reason}"}}'
            before = s.sync.metric(count)
            s.mount.publish(rules)
            harness.wait_for(lambda c=count, b=before: s.sync.metric(c) > b, words)
            status = self.wait_error(s, "seen", words)
            self.assertIn("mount/rules.json: ", status["seen"]["error"])
            self.assertEqual((False, reason), (status["seen"]["taken"], status["seen"]["reason"]))
            self.assertEqual(6, status["rules"]["generation"])
            self.assertTrue(status["ready"])
            self.assertEqual(before + 1, s.sync.metric(count))
            self.assertEqual(0, s.sync.metric("source_ok"))
            self.assertIn(words.replace('"', '\\"'), s.sync.log())
        self.assertEqual(6, s.enforced())
        s.publish(7)
        s.wait_enforced()
        s.check()
        status = s.sync.status()
        self.assertNotIn("error", status["seen"])
        self.assertTrue(status["lastError"]["over"])

    def test_a_file_written_in_place(self):
        s = shard.Shard(self)
        s.start_proxy()
        s.look_on()
        file = os.path.join(s.folder, "plain.json")
        s.mount.path = file  # what --from names
        s.start_sync()
        for generation in range(1, 4):
            s.published = generation
            text = json.dumps(shard.document(generation))
            with open(file, "w", encoding="utf-8") as f:
                for piece in range(0, len(text), 50):
                    f.write(text[piece : piece + 50])
                    f.flush()
            s.wait_enforced()
        s.check()
        self.assertNotIn("refused", s.sync.log())

    def test_a_missed_event(self):
        """What changes behind a link elsewhere is not told; it is looked at all the same."""
        s = self.running()
        elsewhere = os.path.join(s.folder, "elsewhere.json")
        with open(elsewhere, "w", encoding="utf-8") as f:
            json.dump(shard.document(2), f)
        key = os.path.join(s.mount.path, "rules.json")
        s.published = 2
        os.unlink(key)
        os.symlink(elsewhere, key)
        s.wait_enforced()
        s.published = 3
        with open(elsewhere, "w", encoding="utf-8") as f:
            json.dump(shard.document(3), f)
        s.wait_enforced()
        s.published = 4
        with open(elsewhere, "w", encoding="utf-8") as f:
            json.dump(shard.document(4), f)
        s.sync.signal(signal.SIGHUP)
        s.wait_enforced(timeout=5)
        s.check()


class RestartTest(RuleSyncTestCase):
    """Restarts of either and of both, in every order, with and without the ConfigMap."""

    def stop(self, s, who, how):
        for name in who:
            if name == "sync":
                s.stop_sync(how)
            else:
                s.stop_proxy(how)

    def start(self, s, who):
        for name in who:
            if name == "sync":
                s.start_sync()
            else:
                s.start_proxy()

    def restart(self, s, who, how, news):
        """`news`: when the next generation arrives."""
        if news == "before":
            s.publish()
        self.stop(s, who, how)
        if news == "meanwhile":
            s.publish()
        if news == "missing":
            s.mount.remove()
        self.start(s, who[:1])
        if news == "between":
            s.publish()
        self.start(s, who[1:])
        if news == "after":
            s.publish()
        s.wait_enforced()

    def test_every_order(self):
        s = self.running()
        orders = (("sync",), ("proxy",), ("sync", "proxy"), ("proxy", "sync"))
        moments = ("never", "before", "meanwhile", "between", "after", "missing")
        for how, who, news in itertools.product((signal.SIGTERM, signal.SIGKILL), orders, moments):
            with self.subTest(how=how, who=who, news=news):
                self.restart(s, who, how, news)
        s.check()
        self.assertGreater(s.onlooker.lists, 100)

    def test_without_a_copy(self):
        """Nothing is kept on disk: a proxy that forgot shows nothing until it is told."""
        s = self.running(keep=False)
        for _ in range(3):
            s.stop_proxy(signal.SIGKILL)
            s.start_proxy()
            s.wait_enforced()
            s.publish()
            s.wait_enforced()
            s.stop_sync()
            s.start_sync()
            s.wait_enforced()
        s.check()

    def test_an_older_configmap(self):
        """rulesync forgot, the proxy did not: it is left alone."""
        s = self.running(keep=False)
        s.publish(5)
        s.wait_enforced()
        s.stop_sync()
        s.mount.publish(shard.document(4))
        s.start_sync()
        harness.wait_for(
            lambda: s.sync.status()["enforced"]["verdict"] == "ahead", "it sees what is enforced"
        )
        status = self.wait_error(s, "enforced", "generation 5, which is newer than generation 4")
        self.assertFalse(status["ready"])
        self.assertEqual(5, s.enforced())
        s.publish(6)
        s.wait_enforced()
        s.check()

    def test_a_damaged_copy(self):
        s = self.running()
        s.stop_sync()
        s.stop_proxy()
        with open(s.stored, "r+", encoding="utf-8") as f:
            f.truncate(100)
        s.in_force = 0
        refusals = s.onlooker.refusals
        s.start_proxy()
        harness.wait_for(lambda: s.onlooker.refusals > refusals + 5, "nothing is shown")
        s.start_sync()
        s.wait_enforced()
        s.check()
        self.assertIn("damaged", s.sync.log())


class TroubleTest(RuleSyncTestCase):
    """Full disks, stalled sockets, wrong permissions."""

    def test_the_disk_is_full(self):
        s = shard.Shard(self, keep=False)
        disk = os.path.join(s.folder, "disk")
        os.mkdir(disk)
        fill = f"mount -t tmpfs -o size=64k tmpfs '{disk}'\n"
        fill += f"dd if=/dev/zero of='{disk}/fill' bs=4k 2>/dev/null || true"
        prefix = shard.mount_prefix(fill)
        if prefix is None:
            self.skipTest("mount namespaces are not permitted here")
        s.publish()
        s.start_proxy()
        s.look_on()
        s.start_sync(prefix=prefix, stored=os.path.join(disk, "stored.json"))
        s.wait_enforced()
        status = self.wait_error(s, "stored", "No space left on device")
        self.assertTrue(status["ready"])
        self.assertNotIn("generation", status["stored"])
        s.publish()
        s.wait_enforced()
        self.assertEqual(1, s.sync.metric("store_pending"))
        s.stop_proxy(signal.SIGKILL)
        s.start_proxy()
        s.wait_enforced()
        os.unlink(f"/proc/{s.sync.pid}/root{disk}/fill")
        harness.wait_for(lambda: s.sync.metric("stored_generation") == 2, "they are stored", 60)
        with open(f"/proc/{s.sync.pid}/root{disk}/stored.json", encoding="utf-8") as f:
            self.assertEqual(2, json.load(f)["generation"])
        self.assertEqual(0, s.sync.metric("store_pending"))
        s.check()

    def test_the_proxy_stalls(self):
        s = self.running()
        s.proxy.signal(signal.SIGSTOP)
        try:
            s.publish()
            s.publish()
            harness.wait_for(lambda: not s.sync.ready(), "it is not confirmed")
            harness.wait_for(
                lambda: s.sync.status()["stored"]["generation"] == 3, "the second one is stored"
            )
            self.wait_error(s, "enforced", "control.sock")
            s.publish()
            harness.wait_for(lambda: s.sync.metric("used_generation") == 4, "it goes on")
        finally:
            s.proxy.signal(signal.SIGCONT)
        s.wait_enforced()
        s.check()
        self.assertNotIn("error", s.sync.status()["enforced"])

    def test_rulesync_stalls(self):
        s = self.running()
        s.sync.signal(signal.SIGSTOP)
        s.published += 1
        s.mount.publish(shard.document(s.published))
        s.stop_proxy(signal.SIGKILL)
        s.start_proxy()
        self.assertEqual(1, s.enforced())
        s.sync.signal(signal.SIGCONT)
        s.wait_enforced()
        s.check()

    def test_the_socket_is_not_ours(self):
        s = shard.Shard(self)
        s.publish()
        s.start_proxy()
        s.look_on()
        prefix = []
        if os.geteuid() == 0:
            prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            prefix += ["--pdeathsig", "KILL"]  # it does not outlive a change of the user
            os.chown(s.folder, 65534, 65534)
        else:
            os.chmod(s.socket, 0)
        # Where the programs are built, another user may not look.
        program = shutil.copy(harness.program("rulesync"), s.folder)
        s.start_sync(prefix=prefix, program=program)
        status = self.wait_error(s, "enforced", "ermission denied")
        self.assertIn("same user", status["enforced"]["error"])
        self.assertFalse(status["ready"])
        s.publish()
        harness.wait_for(lambda: s.sync.metric("stored_generation") == 2, "they are stored")
        self.assertEqual(0, s.enforced())
        self.assertEqual(0, s.onlooker.lists)
        # As it should be: the stored copy is what the next localproxy begins with.
        s.stop_sync()
        s.stop_proxy()
        s.start_proxy()
        s.start_sync()
        s.wait_enforced()
        s.check()

    def test_the_copy_cannot_be_written(self):
        """Not permitted: handed over all the same."""
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        s = self.running()
        os.chmod(s.folder, 0o555)
        s.publish()
        s.wait_enforced()
        self.wait_error(s, "stored", "ermission denied")
        os.chmod(s.folder, 0o755)
        s.sync.signal(signal.SIGHUP)
        harness.wait_for(lambda: s.sync.metric("stored_generation") == 2, "they are stored")
        s.check()

    def test_a_mount_that_never_changes(self):
        s = shard.Shard(self)
        s.publish()
        file = os.path.join(s.folder, "subpath.json")
        with open(file, "w", encoding="utf-8"):
            pass
        prefix = shard.mount_prefix(f"mount --bind '{s.mount.path}/rules.json' '{file}'")
        if prefix is None:
            self.skipTest("mount namespaces are not permitted here")
        s.start_proxy()
        s.look_on()
        s.mount.path = file
        s.start_sync(prefix=prefix)
        s.wait_enforced()
        self.assertIn("subPath", s.sync.status()["source"]["warning"])
        self.assertEqual(1, s.sync.log().count("will not be updated"))
        s.check()


class ConfigMapTest(RuleSyncTestCase):
    """--from-configmap: list and watch at the real API server."""

    def setUp(self):
        super().setUp()
        self.shard = shard.Shard(self)
        self.path = f"/api/v1/namespaces/{self.shard.namespace}/configmaps"
        self.name = f"{self.shard.namespace}/cmesh-rules"

    def put(self, data, method="PUT"):
        path = self.path + ("/cmesh-rules" if method == "PUT" else "")
        # Shown to none of the shards, as the rest of the cluster.
        labels = {"part": shard.HIDDEN}
        thing = {"metadata": {"name": "cmesh-rules", "labels": labels}, "data": data}
        self.shard.control.json(path, method, thing)

    def publish(self, method="PUT"):
        self.shard.published += 1
        text = json.dumps(shard.document(self.shard.published))
        self.put({"rules.json": text}, method)

    def start_sync(self):
        s = self.shard
        args = ["--from-configmap", self.name, "--kubeconfig", s.control.kubeconfig]
        s.sync = shard.RuleSync(s.folder, [*args, "--to", s.stored, "--control", s.socket])

    def test_follows(self):
        s = self.shard
        s.start_proxy()
        s.look_on()
        self.start_sync()
        place = f"configmap {self.name} key rules.json"
        self.wait_error(s, "source", f"{place}: the ConfigMap does not exist")
        self.publish("POST")
        s.wait_enforced()
        for _ in range(10):
            self.publish()
            s.wait_enforced()
        self.put({"rules.yaml": "x"})
        status = self.wait_error(s, "source", "has no such key")
        self.assertTrue(status["ready"])
        self.assertEqual(self.name, status["source"]["configMap"])
        self.put({"rules.json": "{"})
        self.wait_error(s, "seen", f"configmap {self.name} key rules.json: line 1")
        self.publish()
        s.wait_enforced()
        s.control.json(self.path + "/cmesh-rules", "DELETE")
        self.wait_error(s, "source", "was deleted")
        s.stop_sync()
        self.start_sync()
        s.wait_enforced()
        self.publish("POST")
        s.wait_enforced()
        s.sync.signal(signal.SIGHUP)
        harness.wait_for(lambda: s.sync.metric("documents_total") == 2, "it looks again")
        s.check()

    def test_without_the_right(self):
        s = self.shard
        self.publish("POST")
        kubeconfig = s.control.user_kubeconfig(s.folder, "nobody")
        args = ["--from-configmap", self.name, "--kubeconfig", kubeconfig, "--to", s.stored]
        s.sync = shard.RuleSync(s.folder, args)
        self.wait_error(s, "source", "403 Forbidden")
        self.assertFalse(s.sync.ready())
        self.assertGreater(s.sync.metric('source_errors_total{reason="unreachable"}'), 0)

    def test_once(self):
        s = self.shard
        command = [harness.program("rulesync"), "--once", "--from-configmap", self.name]
        command += ["--kubeconfig", s.control.kubeconfig, "--to", s.stored]
        env = harness.clean_environment()
        missing = subprocess.run(command, capture_output=True, env=env, check=False)
        self.assertEqual(1, missing.returncode)
        self.assertIn(b"the ConfigMap does not exist", missing.stderr)
        self.publish("POST")
        subprocess.run(command, capture_output=True, env=env, check=True)
        with open(s.stored, encoding="utf-8") as f:
            self.assertEqual(1, json.load(f)["generation"])


class PagesTest(RuleSyncTestCase):
    """What it says about itself, and its flags."""

    def test_pages(self):
        s = self.running()
        status = s.sync.status()
        self.assertEqual("rulesync", status["program"])
        for part in ("seen", "rules", "stored", "enforced"):
            self.assertEqual(1, status[part]["generation"], part)
            self.assertEqual(status["seen"]["checksum"], status[part]["checksum"])
        self.assertEqual({"namespace": "cmesh-e2e", "name": "shard-a"}, status["rules"]["shard"])
        self.assertEqual("confirmed", status["enforced"]["verdict"])
        for name in ("takenAt",):
            self.assertRegex(status["rules"][name], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual("ok\n", s.sync.ask("/readyz").body.decode())
        self.assertEqual(405, s.sync.ask("/status", "POST").status)
        text = s.sync.ask("/metrics").body.decode()
        metrics = Metrics(text)
        for name in ("seen", "used", "stored", "enforced"):
            self.assertEqual(1, metrics[f"cmesh_rulesync_{name}_generation"])
        for name in ("ready", "source_ok", "confirmed", "offers_total", "confirmations_total"):
            self.assertEqual(1, metrics[f"cmesh_rulesync_{name}"])
        self.assertEqual(0, metrics['cmesh_rulesync_refused_total{reason="older"}'])
        self.assertGreater(metrics["process_resident_memory_bytes"], 1 << 20)

    def test_errors_do_not_flood_the_log(self):
        s = self.running()
        s.stop_proxy()
        harness.wait_for(lambda: s.sync.metric("retries_total") > 5, "it tries on")
        lines = [line for line in s.sync.log().splitlines() if "cannot be told" in line]
        self.assertLessEqual(len(lines), 3)
        s.start_proxy()
        s.wait_enforced()

    def run_once(self, *args):
        return subprocess.run(
            [harness.program("rulesync"), *args],
            capture_output=True,
            env=harness.clean_environment(),
            check=False,
            text=True,
            timeout=60,
        )

    def test_wrong_usage(self):
        folder = self.folder
        for args, words in (
            ([], "--from is missing"),
            (["--from", folder], "--to or --control is missing"),
            (["--from", folder, "--from-configmap", "a/b", "--to", "x"], "cannot be combined"),
            (["--from-configmap", "b", "--to", "x"], "must be NAMESPACE/NAME"),
            (["--from-configmap", "a/B", "--to", "x"], "must be NAMESPACE/NAME"),
            (["--from", folder, "--to", "x", "--shard", "a"], "must be NAMESPACE/NAME"),
            (["--from", folder, "--to", "x/traffic.json"], "another name than traffic.json"),
            (["--from", folder, "--to", "x", "extra"], 'unexpected argument "extra"'),
            (["--from", folder, "--to", "x", "--nonsense"], "--nonsense"),
            (["--from", folder, "--to", "x", "--timeout", "no"], "--timeout"),
            (["--in-cluster", "--context", "x", "--from-configmap", "a/b", "--to", "t"], "--in-cluster"),
            (["--from", folder, "--to", "x", "--at-start"], "--at-start needs --once"),
            (["--from", folder, "--to", "x", "--timeout", "1"], "--timeout needs --once"),
            (["--from", folder, "--to", "x", "--kubeconfig", "f"],
             "--kubeconfig needs --from-configmap"),
            (["--from", folder, "--to", "x", "--once", "--admin", "127.0.0.1:0"],
             "--admin cannot be combined with --once"),
            (["--from", folder, "--to", "x", "--once", "--ready-file", "x"],
             "--ready-file cannot be combined with --once"),
            (["--from", folder, "--to", "x", "--admin", "nonsense"], '--admin: "nonsense"'),
            (["--from", folder, "--to", "x", "--at-start=false", "--in-cluster=false",
              "--kubeconfig=", "--context", "", "--admin", "nonsense"], '--admin: "nonsense"'),
            (["--from", folder, "--control", "/" + "x" * 200], "--control: /xxx"),
        ):
            result = self.run_once(*args)
            self.assertEqual(2, result.returncode, args)
            self.assertIn(words, result.stderr)

    def test_cannot_start(self):
        mount = shard.Mount(self.path("mount"))
        mount.publish(shard.document(1))
        base = ["--from", mount.path, "--admin", "127.0.0.1:0"]
        taken = self.path("taken.json", json.dumps(shard.document(1)))
        for args, words in (
            (["--to", self.path("nowhere/x.json")], "its folder: No such file or directory"),
            (["--to", self.folder], "not a file"),
            (["--to", taken, "--shard", "a/b"], "must be removed first"),
        ):
            result = self.run_once(*base, *args)
            self.assertEqual(1, result.returncode, args)
            self.assertIn(words, result.stderr)
        ready = ["--to", taken, "--ready-file", self.path("nowhere/ready")]
        result = self.run_once(*base, *ready)
        self.assertEqual(1, result.returncode)
        self.assertIn("--ready-file: ", result.stderr)
        self.assertNotIn("listening", result.stderr)

    def test_once(self):
        mount = shard.Mount(self.path("mount"))
        stored = self.path("stored.json")
        base = ["--once", "--from", mount.path, "--to", stored]
        result = self.run_once(*base)
        self.assertEqual(1, result.returncode)
        self.assertEqual(1, result.stderr.count("mount: No such file"), result.stderr)
        mount.publish(shard.document(2))
        self.assertEqual(0, self.run_once(*base).returncode)
        self.assertEqual(0, self.run_once(*base).returncode)
        mount.publish(shard.document(1))
        result = self.run_once(*base)
        self.assertEqual(1, result.returncode)
        self.assertEqual(1, result.stderr.count("is older than generation 2"), result.stderr)
        self.assertIn("rulesync: failed", result.stderr)
        with open(stored, encoding="utf-8") as f:
            self.assertEqual(2, json.load(f)["generation"])
        control = ["--control", self.path("nobody.sock"), "--timeout", "1"]
        mount.publish(shard.document(3))
        result = self.run_once(*base, *control)
        self.assertEqual(1, result.returncode)
        self.assertIn("time limit", result.stderr)

    def test_once_with_a_proxy(self):
        s = shard.Shard(self)
        s.start_proxy()
        s.look_on()
        s.publish()
        base = ["--once", "--from", s.mount.path, "--control", s.socket]
        self.assertEqual(0, self.run_once(*base).returncode)
        self.assertEqual(1, s.enforced())
        s.in_force = 1
        s.publish(5)
        self.assertEqual(0, self.run_once(*base).returncode)
        s.in_force = 5
        s.mount.publish(shard.document(4))
        result = self.run_once(*base)
        self.assertEqual(1, result.returncode)
        self.assertEqual(1, result.stderr.count("which is newer than generation 4"), result.stderr)
        s.check()

    def test_once_at_the_start_of_a_pod(self):
        mount = shard.Mount(self.path("mount"))
        stored = self.path("stored.json")
        base = ["--once", "--at-start", "--from", mount.path, "--to", stored]
        result = self.run_once(*base, "--timeout", "1")
        self.assertEqual(1, result.returncode)
        self.assertIn("time limit", result.stderr)
        self.assertIn("mount: No such file", result.stderr)
        late = threading.Timer(1, mount.publish, [shard.document(2)])
        late.start()
        self.addCleanup(late.join)
        self.assertEqual(0, self.run_once(*base).returncode)
        mount.publish("nonsense")
        result = self.run_once(*base)
        self.assertEqual(0, result.returncode)
        self.assertIn("refused rules, which changes nothing", result.stderr)
        shutil.rmtree(mount.path)
        result = self.run_once(*base)
        self.assertEqual(0, result.returncode)
        self.assertIn("No such file", result.stderr)
        mount.publish("nonsense")
        os.remove(stored)
        self.assertEqual(1, self.run_once(*base).returncode)

    def test_once_at_the_start_with_a_proxy(self):
        s = shard.Shard(self)
        s.start_proxy()
        s.look_on()
        s.published = 3
        stored = self.path("stored.json", json.dumps(shard.document(3)))
        base = ["--once", "--at-start", "--from", stored, "--control", s.socket]
        self.assertEqual(0, self.run_once(*base).returncode)
        self.assertEqual(3, s.enforced())
        s.in_force = 3
        self.path("stored.json", json.dumps(shard.document(2)))
        self.assertEqual(0, self.run_once(*base).returncode)
        s.check()

    def test_a_folder_that_comes_back(self):
        s = self.running()
        for _ in range(3):
            shutil.rmtree(s.mount.path)
            self.wait_error(s, "source", "No such file")
            s.publish()
            s.wait_enforced()
        s.check()


class TrafficTest(RuleSyncTestCase):
    """Traffic policies, which go their way beside the rules."""

    def setUp(self):
        super().setUp()
        self.mount = shard.Mount(self.path("mount"))
        self.stored = self.path("kept")
        os.mkdir(self.stored)
        self.copy = os.path.join(self.stored, "traffic.json")
        self.sync = None
        self.addCleanup(lambda: self.sync and self.sync.stop())

    def args(self, *more):
        name = f"{shard.NAMESPACE}/{shard.NAME}"
        to = os.path.join(self.stored, "rules.json")
        return ["--from", self.mount.path, "--to", to, "--shard", name, *more]

    def once(self, *more):
        return subprocess.run(
            [harness.program("rulesync"), "--once", "--at-start", *self.args(*more)],
            capture_output=True,
            env=harness.clean_environment(),
            check=False,
            text=True,
            timeout=60,
        )

    def kept(self):
        """The generation of the copy; 0: there is none."""
        if not os.path.exists(self.copy):
            return 0
        with open(self.copy, encoding="utf-8") as f:
            return json.load(f)["generation"]

    def traffic(self):
        return self.sync.status()["traffic"]

    def wait_in_use(self, generation):
        harness.wait_for(
            lambda: self.traffic().get("inUse", {}).get("generation", 0) == generation,
            f"policies {generation} are in use",
        )
        self.assertEqual(generation, self.kept())

    def test_a_pod_starts_with_them(self):
        self.mount.publish(shard.document(1), shard.traffic_document(3))
        self.assertEqual(0, self.once().returncode)
        self.assertEqual(3, self.kept())
        self.mount.publish(shard.document(1), shard.traffic_document(2))
        self.assertEqual(0, self.once().returncode)
        self.assertEqual(2, self.kept())
        for bad, words in (
            ("nonsense", "refused traffic policies, which changes nothing"),
            (shard.traffic_document(4, shard={"namespace": "a", "name": "b"}), "of shard a/b"),
            (" " * (1 << 20) + " ", "larger than the limit"),
        ):
            self.mount.publish(shard.document(1), bad)
            result = self.once()
            self.assertEqual(0, result.returncode, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(2, self.kept())
        self.mount.publish(None)
        self.assertEqual(0, self.once().returncode)
        self.assertEqual(2, self.kept())
        self.mount.publish(shard.document(1))
        self.assertEqual(0, self.once().returncode)
        self.assertEqual(0, self.kept())
        self.assertFalse(os.path.exists(self.copy))

    def test_nothing_of_them_keeps_a_pod_from_starting(self):
        self.mount.publish(shard.document(1), shard.traffic_document(3))
        os.mkdir(self.copy)
        result = self.once()
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("cannot store the traffic policies", result.stderr)
        os.rmdir(self.copy)
        with open(self.copy, "w", encoding="utf-8") as f:
            f.write("half of")
        self.mount.publish(shard.document(1), "nonsense")
        result = self.once()
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("the stored traffic policies cannot be used", result.stderr)

    def test_pages(self):
        self.mount.publish(shard.document(1))
        self.sync = shard.RuleSync(self.folder, self.args())
        harness.wait_for(self.sync.ready, "it is ready")
        self.assertEqual(False, self.traffic()["source"]["found"])
        self.assertNotIn("error", self.traffic()["source"])
        self.assertNotIn("inUse", self.traffic())
        self.assertEqual(1, self.sync.metric("traffic_source_ok"))
        self.mount.publish(shard.document(1), shard.traffic_document(3))
        self.wait_in_use(3)
        traffic = self.traffic()
        self.assertEqual({"namespace": "cmesh-e2e", "name": "shard-a"}, traffic["inUse"]["shard"])
        self.assertEqual((1, "source"), (traffic["inUse"]["policies"], traffic["inUse"]["from"]))
        for part in ("seen", "stored"):
            self.assertEqual(3, traffic[part]["generation"])
            self.assertEqual(traffic["inUse"]["checksum"], traffic[part]["checksum"])
        self.assertEqual(self.copy, traffic["stored"]["path"])
        for name in ("seen", "used", "stored"):
            self.assertEqual(3, self.sync.metric(f"traffic_{name}_generation"))
        self.mount.publish(shard.document(1), "nonsense")
        harness.wait_for(lambda: "error" in self.traffic()["seen"], "it is refused")
        self.assertIn("mount/traffic.json: line 1", self.traffic()["seen"]["error"])
        self.assertEqual("invalid", self.traffic()["seen"]["reason"])
        self.assertEqual(1, self.sync.metric('traffic_refused_total{reason="invalid"}'))
        self.assertEqual(0, self.sync.metric("traffic_source_ok"))
        self.assertEqual(1, self.sync.metric("source_ok"))
        self.assertTrue(self.sync.ready())
        self.assertNotIn("error", self.sync.status()["seen"])
        self.mount.publish(shard.document(1))
        self.wait_in_use(0)

    def test_a_single_file_has_none(self):
        folder = self.mount.path
        self.mount.publish(shard.document(1), shard.traffic_document(3))
        self.mount.path = os.path.join(folder, "rules.json")
        self.sync = shard.RuleSync(self.folder, self.args())
        harness.wait_for(self.sync.ready, "it is ready")
        harness.wait_for(lambda: "traffic" not in self.sync.status(), "it says nothing of them")
        self.assertEqual(0, self.kept())


class BlindTest(harness.TestCase):
    """Another process of rulesync's user has all of the kernel's watchers that this user may have."""

    USER = "65531"  # of nobody else here
    PREFIX = ["--reuid", USER, "--regid", USER, "--clear-groups"]
    TAKE_ALL = """
import ctypes, sys
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0:
    pass
print("taken", flush=True)
sys.stdin.read()
"""

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        self.source = self.path("rules.json")

    def take_all(self):
        """Ends, and gives them back, when its input does."""
        holder = subprocess.Popen(
            ["prlimit", "--nofile=4096", "setpriv", "--pdeathsig", "KILL", *self.PREFIX,
             sys.executable, "-c", self.TAKE_ALL],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(harness.end_process, holder)
        self.assertEqual(b"taken\n", holder.stdout.readline())
        return holder

    def publish(self, generation):
        new = self.path("new.json", json.dumps(shard.document(generation)))
        os.chmod(new, 0o644)
        os.replace(new, self.source)

    def start_sync(self):
        args = ["--from", self.source, "--to", self.path("stored.json")]
        sync = shard.RuleSync(self.folder, args, self.PREFIX)
        self.addCleanup(sync.stop)
        return sync

    def wait_used(self, sync, generation):
        harness.wait_for(lambda: sync.metric("used_generation") == generation,
                         f"generation {generation} is used")  # fmt: skip

    def test_looks_each_second_and_watches_again(self):
        holder = self.take_all()
        self.publish(1)
        sync = self.start_sync()
        self.wait_used(sync, 1)
        self.assertIn("cannot watch the source: looking each second", sync.log())
        self.assertEqual(0, sync.metric("source_watched"))
        self.assertIs(False, sync.status()["source"]["watched"])
        began = time.monotonic()
        for generation in range(2, 6):
            self.publish(generation)
            self.wait_used(sync, generation)
        # Four looks: with 10 s between two of them it would be nearly 40 s.
        self.assertLess(time.monotonic() - began, 20)
        harness.end_process(holder)
        harness.wait_for(lambda: sync.metric("source_watched") == 1, "the source is watched again")
        self.assertIs(True, sync.status()["source"]["watched"])
        self.publish(6)
        self.wait_used(sync, 6)


if __name__ == "__main__":
    harness.main()
