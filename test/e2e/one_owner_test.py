# SPDX-License-Identifier: Apache-2.0
"""The promise of docs/one-owner.md: at no time do the pods of two shards of an operator act on the same
object. Stories in which it was broken once, and a random life of shards, roots, pods, managers and an
API server. Judged by what each pod was shown under which generation of its rules, and by the audit log.

    test/e2e/run --seed=N --reloads=STEPS one_owner_test.LifeTest
"""

import json
import os
import random
import shutil
import signal
import sys
import time

import harness
import mesh
import one_owner
import wire
from one_owner import SOON

SEED = harness.seed()
STEPS = harness.reloads(40)
UNKNOWN = 150  # the same when a write had no answer: for 95 s it may still be executed
LITTLE = (0, 4096, 1 << 16, 1 << 18, 1 << 20)  # bytes with which a manager ends sooner or later
DOUBT = 30  # seconds for which shards of different locks wait for each other (ownership.h)


def setUpModule():
    mesh.install()


class StoryTest(one_owner.Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.spaces
        self.manager()

    def cut_off(self, pod):
        """Its rules come no more; it works on."""
        pod.sync.signal(signal.SIGSTOP)
        self.addCleanup(pod.sync.signal, signal.SIGCONT)

    def check_waits(self, seconds, spaces, pod):
        """For so long nobody else gets what the pod shows."""
        until = time.time() + seconds
        while time.time() < until:
            self.wait_works(spaces, pod)
            self.check_one_owner()
            time.sleep(0.2)

    def test_a_shard_becomes_a_root_and_a_shard_again(self):
        self.apply(self.plain("blue", self.spaces))
        old = self.new_pod("blue")
        self.wait_works(self.spaces, old)
        self.apply(self.root("blue", self.spaces))
        self.wait_exists("blue-2-normal")
        second = self.new_pod("blue-2-normal", "blue", 1)
        self.wait_waits("blue-2-normal", old.name)
        self.wait_works(self.spaces, old)
        self.assertIsNotNone(self.map_of("blue"))
        old.end()
        first = self.new_pod("blue-1-normal", "blue", 0)
        self.wait_works(self.spaces, first, second)
        harness.wait_for(lambda: self.map_of("blue") is None, "its ConfigMap is gone", SOON)
        self.check_one_owner()

        self.apply(self.plain("blue", self.spaces))
        third = self.new_pod("blue", ordinal=2)
        self.wait_waits("blue", "blue-1-normal")
        for child in ("blue-1-normal", "blue-2-normal"):
            self.delete(child)
        self.wait_waits("blue", first.name)
        self.wait_works(self.spaces, first, second)
        first.end()
        second.end()
        self.wait_works(self.spaces, third)
        self.check_one_owner()

    def test_a_lock_is_renamed_with_a_new_shard(self):
        self.apply(self.plain("blue", self.spaces))
        old = self.new_pod("blue")
        self.wait_works(self.spaces, old)
        self.cut_off(old)
        self.apply(self.plain("red", [self.b], "lead2"), self.plain("blue", [self.a], "lead2"))
        new = self.new_pod("red")
        self.wait_waits("red", old.name)
        self.check_waits(DOUBT + 5, self.spaces, old)
        old.end()
        self.wait_works([self.b], new)
        self.wait_works([self.a], self.new_pod("blue"))
        self.check_one_owner()

    def test_a_shard_is_renamed_with_its_lock(self):
        self.apply(self.plain("blue", self.spaces))
        old = self.new_pod("blue")
        self.wait_works(self.spaces, old)
        self.delete("blue")
        self.apply(self.plain("red", self.spaces, "lead2", slot="blue"))
        new = self.new_pod("red", "blue", 1)
        self.wait_waits("red", old.name)
        self.check_waits(3, self.spaces, old)
        old.end()
        self.wait_works(self.spaces, new)
        self.check_one_owner()

    def test_a_root_gets_another_prefix_and_lock(self):
        """And a canary, so that the pod that is restarted first gets what another one still shows."""
        self.apply(self.root("root", self.spaces, prefix="old", size=1))
        self.wait_exists("old-1-normal")
        old = self.new_pod("old-1-normal", "root")
        self.wait_works(self.spaces, old)
        self.apply(self.root("root", self.spaces, "lead2", prefix="new", size=1, canary=[self.a]))
        self.wait_exists("new-1-normal")
        normal = self.new_pod("new-1-normal", "root", 1)
        self.wait_waits("new-1-normal", old.name)
        self.wait_works(self.spaces, old)
        old.end()
        self.wait_works([self.b], normal)
        self.wait_exists("new-0-canary")
        self.wait_works([self.a], self.new_pod("new-0-canary", "root"))
        self.check_one_owner()

    def test_another_operator_without_a_lock_does_not_block(self):
        """Its ShardingConfig selects everything, and has no pods."""
        for account in ("of-a", "of-b"):
            self.make_account(account)
        other = self.plain("other", [])
        del other["spec"]["controller"]
        other["spec"]["limits"] = []
        self.apply(other, self.plain("blue", self.spaces), self.plain("red", []))
        blue, red = (self.new_pod(name, account="of-a") for name in ("blue", "red"))
        self.wait_works(self.spaces, blue)
        self.new_pod("other", account="of-b").end()
        begun = time.time()
        self.apply(self.plain("red", [self.b]), self.plain("blue", [self.a]))
        self.wait_works([self.b], red)
        self.assertLess(time.time() - begun, DOUBT + 10)
        self.check_one_owner()

    def canary_stays_out(self, refuse, name="root-0-canary"):
        self.apply(self.root("root", self.spaces))
        pods = []
        for i in (0, 1):
            self.wait_exists(f"root-{i + 1}-normal")
            pods.append(self.new_pod(f"root-{i + 1}-normal", "root", i))
        self.wait_works(self.spaces, *pods)
        refuse()
        self.apply(self.root("root", self.spaces, canary=[self.a]))
        generation = self.get("root")["metadata"]["generation"]
        harness.wait_for(
            lambda: self.get("root").get("status", {}).get("observedGeneration") == generation,
            "it was looked at",
            SOON,
        )
        until = time.time() + 5
        while time.time() < until:
            self.wait_works(self.spaces, *pods, timeout=3)
        self.check_one_owner()

    def test_a_canary_whose_name_is_taken(self):
        self.canary_stays_out(lambda: self.apply(self.plain("root-0-canary", [], slot="nobody")))

    @harness.needs("ResourceQuotas")
    def test_a_canary_that_a_quota_refuses(self):
        self.canary_stays_out(lambda: self.refuse("shardingconfigs." + mesh.GROUP))

    def refuse(self, what):
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": what},
                 "spec": {"hard": {f"count/{what}": "0"}}}  # fmt: skip
        path = self.api.path(quota)
        self.api.create(quota)
        harness.wait_for(lambda: self.cluster.json(path)["status"].get("hard"), "it is known", SOON)

    def make_account(self, name):
        thing = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.apply(thing)
        harness.wait_for_pods(self.cluster, self.namespace, name)


class Share:
    """A ShardingConfig as it is to be, and the slot of its pods."""

    def __init__(self, name, slot, lock):
        self.name = name
        self.slot = slot
        self.lock = lock
        self.spaces = set()
        self.pods = 1
        self.prefix = None  # of a root; None: it is none
        self.canary = set()

    def shard(self, ordinal):
        """Of its pod with that number; None: there is none."""
        if ordinal >= self.pods + bool(self.canary):
            return None
        if self.prefix is None:
            return self.name
        number = ordinal + 1 - bool(self.canary)
        return f"{self.prefix}-{number}-{'normal' if number else 'canary'}"

    def shards(self):
        return [self.shard(i) for i in range(self.pods + bool(self.canary))]

    def shards_of(self, space):
        """Those that may have it, when all is settled."""
        if not self.canary:
            return self.shards()
        return self.shards()[:1] if space in self.canary else self.shards()[1:]


class LifeTest(one_owner.Case):
    control_plane = staticmethod(harness.disposable_cluster)
    SPACES = 5
    ORDINALS = 4

    def setUp(self):
        super().setUp()
        mesh.define(self.cluster, self.kubectl)
        self.pick = random.Random(SEED)
        self.begun = time.time()
        self.told = []
        self.next_name = 0
        self.slots = []
        self.shares = []
        self.running = {}  # slot and ordinal -> pod
        self.leaving = []
        self.managers = []
        self.refused = []  # paths of what makes creates fail
        self.patience = SOON
        self.spoilt = False
        self.starves = not harness.is_sanitized(harness.program("manager"))
        self.addCleanup(self.keep_logs)

    def keep_logs(self):
        if keep := os.environ.get("CMESH_E2E_KEEP_LOGS"):
            for manager in self.managers:
                shutil.copy(manager.log_path, keep)

    def tell(self, text):
        self.told.append(f"{time.time() - self.begun:8.3f} {text}")

    # ---- what there is ----

    def name(self, what):
        self.next_name += 1
        return f"{what}{self.next_name}"

    def thing(self, share):
        more = {"lock": share.lock, "slot": share.slot}
        if share.prefix is None:
            return self.plain(share.name, share.spaces, **more)
        more.update(size=share.pods, prefix=share.prefix, canary=share.canary)
        return self.root(share.name, share.spaces, **more)

    def pause(self, *seconds):
        time.sleep(self.pick.choice(seconds))

    def write(self, *shares):
        """As one `kubectl apply`, in any order."""
        shares = list(shares)
        self.pick.shuffle(shares)
        for share in shares:
            self.tell(f"  apply {share.name}: {vars(share)}")
            answer = self.api.try_apply(self.thing(share))
            if answer.status == 403 and self.refused:
                self.tell(f"  refused: {answer.said}")
            elif answer.status >= 300:
                raise AssertionError(answer.said)
            self.pause(0, 0, 0.1, 0.5)

    def remove(self, name):
        self.tell(f"  delete {name}")
        self.cluster.fetch(f"{self.configs}/{name}", "DELETE")

    def share_anew(self, among):
        """What these have, and what nobody has, at random."""
        had = set(self.spaces).difference(*(s.spaces for s in self.shares if s not in among))
        for share in among:
            share.spaces, share.canary = set(), set() if share.prefix is None else share.canary
        for space in sorted(had):
            self.pick.choice(among).spaces.add(space)
        for share in among:
            share.canary &= share.spaces

    def some(self, count):
        return self.pick.sample(self.shares, min(count, len(self.shares)))

    def roots(self):
        return [share for share in self.shares if share.prefix is not None]

    def plains(self):
        return [share for share in self.shares if share.prefix is None]

    # ---- steps: shards ----

    def move(self):
        among = self.some(self.pick.choice((2, 3)))
        self.share_anew(among)
        self.write(*among)

    def move_and_back(self):
        among = self.some(2)
        old = [(set(share.spaces), set(share.canary)) for share in among]
        self.share_anew(among)
        self.write(*among)
        self.pause(0, 0.1, 0.5, 2)
        for share, (spaces, canary) in zip(among, old):
            share.spaces, share.canary = spaces, canary
        self.write(*among)

    def rename_lock(self):
        """Of some or all, and what they have changes in the same edit."""
        among = self.some(self.pick.choice((1, 2, 3)))
        lock = self.pick.choice((self.name("lock"), self.name("lock"), "", "lock"))
        for share in among:
            share.lock = lock
        if self.pick.random() < 0.6:
            self.share_anew(among)
        self.write(*among)

    def rename_shard(self):
        """The pods that there are keep their rules."""
        among = self.some(self.pick.choice((1, 2)))
        share, old = among[0], among[0].name
        share.name = self.name("shard")
        if share.prefix is not None:
            share.prefix = share.name
        if self.pick.random() < 0.5:
            share.lock = self.name("lock")
        if self.pick.random() < 0.5:
            self.share_anew(among)
        steps = [lambda: self.remove(old), lambda: self.write(*among)]
        self.pick.shuffle(steps)
        for step in steps:
            step()

    def add_shard(self):
        if len(self.shares) >= 4:
            return
        among = self.some(2)
        lock = self.pick.choice([share.lock for share in self.shares] + [self.name("lock")])
        new = Share(self.name("shard"), self.name("slot"), lock)
        self.slots.append(new.slot)
        self.shares.append(new)
        self.share_anew([*among, new])
        self.write(*among, new)
        self.right(new.slot, 0)

    def drop_shard(self):
        if len(self.shares) <= 2:
            return
        share = self.pick.choice(self.shares)
        self.shares.remove(share)
        among = self.some(2)
        self.share_anew(among)
        steps = [lambda: self.remove(share.name), lambda: self.write(*among)]
        self.pick.shuffle(steps)
        for step in steps:
            step()

    def become_root(self):
        if self.plains():
            share = self.pick.choice(self.plains())
            share.prefix = self.pick.choice((share.name, self.name("prefix")))
            share.pods = self.pick.choice((1, 2))
            share.canary = set(sorted(share.spaces)[: self.pick.choice((0, 1))])
            self.write(share)

    def become_plain(self):
        """Its children are deleted by who made it a root."""
        if self.roots():
            share = self.pick.choice(self.roots())
            share.prefix, share.canary, share.pods = None, set(), 1
            self.write(share)
            self.pause(0, 0.1, 1)
            self.delete_children()

    def delete_children(self):
        """Those of roots that are none any more: where there is a garbage collector, it deletes those
        of roots that are gone."""
        roots = {share.name for share in self.roots()}
        for thing in self.cluster.json(self.configs)["items"]:
            root = thing["metadata"].get("labels", {}).get(mesh.GROUP + "/auto-sharding-root")
            if root is not None and root not in roots:
                self.remove(thing["metadata"]["name"])

    def edit_root(self):
        if self.roots():
            share = self.pick.choice(self.roots())
            what = self.pick.choice(("size", "canary", "canary", "prefix"))
            if what == "size":
                share.pods = self.pick.choice((1, 2, 3))
            elif what == "canary":
                some = self.pick.choice((0, 1, 2))
                share.canary = set(self.pick.sample(sorted(share.spaces), min(some, len(share.spaces))))
            else:
                share.prefix = self.name("prefix")
            if self.pick.random() < 0.3:
                share.lock = self.name("lock")
            self.write(share)

    def scale(self):
        if self.plains():
            self.pick.choice(self.plains()).pods = self.pick.choice((0, 1, 2))

    # ---- steps: pods ----

    def wanted(self, slot, ordinal):
        return next((s.shard(ordinal) for s in self.shares if s.slot == slot), None)

    def places(self):
        return [(slot, ordinal) for slot in self.slots for ordinal in range(self.ORDINALS)]

    def right(self, slot, ordinal):
        """It is replaced if it is of another shard now, ended if it should not be, or started."""
        wanted, pod = self.wanted(slot, ordinal), self.running.get((slot, ordinal))
        if pod is not None and pod.of != wanted:
            self.tell(f"  end {pod.name} of {pod.of}")
            self.running.pop((slot, ordinal)).end()
            pod = None
        if pod is None and wanted is not None and self.exists(wanted):
            tells, reachable = self.pick.choice(((True, True), (True, False), (False, True)))
            pod = self.new_pod(wanted, slot, ordinal, tells, reachable)
            self.tell(f"  started {pod.name} of {wanted}")
            self.running[slot, ordinal] = pod

    def is_right(self, place):
        pod = self.running.get(place)
        return (pod and pod.of) == self.wanted(*place)

    def right_one(self):
        wrong = [place for place in self.places() if not self.is_right(place)]
        if wrong:
            self.right(*self.pick.choice(wrong))

    def a_pod(self):
        """Which, and where it is; None: there is none."""
        return self.pick.choice(sorted(self.running)) if self.running else None

    def kill_a_pod(self):
        if place := self.a_pod():
            pod = self.running.pop(place)
            self.tell(f"  kill {pod.name} of {pod.of}")
            pod.die()
            pod.finalize()

    def begin_to_end_a_pod(self):
        """It works on while its object is being deleted."""
        if place := self.a_pod():
            pod = self.running.pop(place)
            self.tell(f"  {pod.name} of {pod.of} is being deleted")
            pod.leave()
            self.leaving.append(pod)

    def end_a_pod(self):
        if self.leaving:
            pod = self.leaving.pop(self.pick.randrange(len(self.leaving)))
            self.tell(f"  {pod.name} has ended")
            pod.end()

    def cut_off_a_pod(self):
        if place := self.a_pod():
            pod = self.running[place]
            frozen = self.pick.random() < 0.2
            self.tell(f"  {pod.name} of {pod.of} is {'frozen' if frozen else 'cut off'}")
            pod.sync.signal(signal.SIGSTOP)
            if frozen:
                pod.proxy.signal(signal.SIGSTOP)
            pod.cut = True

    def join_a_pod(self):
        cut = [pod for _, pod in sorted(self.running.items()) if pod.cut]
        if cut:
            self.join(self.pick.choice(cut))

    def join(self, pod):
        self.tell(f"  {pod.name} of {pod.of} is back")
        for process in (pod.sync, pod.proxy):
            process.signal(signal.SIGCONT)
        pod.cut = False

    def restart_a_container(self):
        """One that is cut off stays so if it is its localproxy."""
        if place := self.a_pod():
            pod = self.running[place]
            what = self.pick.choice(("SIGTERM", "SIGTERM", "SIGTERM", "SIGKILL", "sync", "sync"))
            self.tell(f"  a container of {pod.name} of {pod.of} starts again: {what}")
            if what != "sync":
                pod.restart_proxy(signal.Signals[what])
                self.patience = UNKNOWN if what == "SIGKILL" else self.patience
            else:
                pod.restart_sync()
                pod.proxy.signal(signal.SIGCONT)
                pod.cut = False

    # ---- steps: managers, ConfigMaps, the API server ----

    def alive(self):
        return [manager for manager in self.managers if manager.process.poll() is None]

    def start_a_manager(self):
        if len(self.alive()) < 2:
            name = f"manager-{len(self.managers)}"
            self.tell(f"  start {name}")
            options = ("--lease-duration", "3", "--probe-interval", "1")
            self.managers.append(self.start_manager(*options, name=name))

    def kill_a_manager(self):
        if self.alive():
            manager = self.pick.choice(self.alive())
            self.tell(f"  kill {manager.name}")
            manager.kill()
        self.pause(0, 0.3, 1)
        if self.pick.random() < 0.7:
            self.start_a_manager()

    def starve_a_manager(self):
        """It ends when it needs memory, at any moment; others are there, or come later."""
        if self.starves and self.alive():
            manager = self.pick.choice(self.alive())
            more = self.pick.choice(LITTLE)
            self.tell(f"  {manager.name} gets {more} bytes more")
            manager.starve(more)
        self.pause(0, 0.3, 1)
        if self.pick.random() < 0.7:
            self.start_a_manager()

    def spoil_a_map(self):
        """No edit of these shows anything more. Between two rests it is one: when a leader comes to
        two that it cannot read, each shard waits until the pods of the other are restarted."""
        maps = [m for m in self.cluster.json(self.maps)["items"]
                if m["metadata"]["name"].startswith(mesh.CONFIG_MAP)]  # fmt: skip
        if not maps or self.spoilt:
            return
        self.spoilt = True
        found = self.pick.choice(sorted(maps, key=lambda m: m["metadata"]["name"]))
        how = self.pick.choice(("delete", "garbage", "empty", "labels", "annotations", "less"))
        path = f"{self.maps}/{found['metadata']['name']}"
        self.tell(f"  {how} of {found['metadata']['name']}")
        rules = mesh.rules_of(found)
        if how == "delete":
            self.cluster.fetch(path, "DELETE")
        elif how == "less" and rules:
            rules["generation"] += 1
            rules["spec"]["limits"] = [harness.limit(["configmaps"], f"{one_owner.KEY}=none")]
            self.change(path, {"data": {"rules.json": json.dumps(rules)}})
        elif how in ("garbage", "empty"):
            self.change(path, {"data": {"rules.json": "{" if how == "garbage" else None}})
        else:
            self.change(path, {"metadata": {how: None}})

    def change(self, path, patch):
        """If it is there yet."""
        self.cluster.fetch(path, "PATCH", one_owner.MERGE, json.dumps(patch).encode())

    def refuse_creates(self):
        """Of ConfigMaps or ShardingConfigs, or of one that a root is to make, for some time."""
        if self.refused:
            self.refuse_no_more()
            return
        names = [name for share in self.roots() for name in share.shards() if not self.exists(name)]
        if names:
            self.tell(f"  {names[0]} is taken")
            taken = self.plain(names[0], [], self.name("lock"), self.name("nobody"))
            self.apply(taken)
            self.refused.append(self.api.path(taken))
        elif not harness.modern():
            what = self.pick.choice(("configmaps", "shardingconfigs." + mesh.GROUP))
            self.tell(f"  no new {what}")
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": what},
                     "spec": {"hard": {f"count/{what}": "0"}}}  # fmt: skip
            self.api.create(quota)
            self.refused.append(self.api.path(quota))

    def refuse_no_more(self):
        while self.refused:
            self.tell("  creates are possible again")
            self.api.delete(self.refused.pop())

    def stop_the_api_server(self):
        self.tell("  the API server is away")
        self.cluster.stop_apiserver()
        self.pause(0, 1, 3)
        self.pick.choice((self.cut_off_a_pod, self.join_a_pod, self.kill_the_managers, int))()
        self.cluster.start_apiserver()
        harness.wait_for(self.serves, "it serves", SOON)
        self.tell("  the API server is back")
        self.patience = UNKNOWN

    def kill_the_managers(self):
        for manager in self.alive():
            self.tell(f"  kill {manager.name}")
            manager.kill()

    def serves(self):
        try:
            return self.cluster.fetch(mesh.API).status == 200
        except (OSError, wire.Cut):
            return False

    # ---- at rest ----

    def settle(self):
        """Nothing is edited, all pods are well: all is worked on before long."""
        self.tell("settle")
        self.refuse_no_more()
        for manager in self.alive():
            if manager.starved:
                manager.stop()
        if not self.alive():
            self.start_a_manager()
        for pod in self.running.values():
            if pod.cut:
                self.join(pod)
        self.delete_children()
        while self.leaving:
            self.end_a_pod()
        for share in self.shares:
            share.pods = max(share.pods, 1)
            self.apply(self.thing(share))
            if share.prefix is not None:
                for name in share.shards():
                    self.wait_exists(name)
        for place in self.places():
            self.right(*place)
        for share in self.shares:
            for space in share.spaces:
                names = share.shards_of(space)
                self.wait_shown(space, lambda pod, n=names: pod.of in n, self.patience)
        self.patience, self.spoilt = SOON, False
        self.check_one_owner()
        self.tell("settled")

    STEPS = ((move, 6), (move_and_back, 2), (rename_lock, 4), (rename_shard, 3), (add_shard, 2),
             (drop_shard, 2), (become_root, 3), (become_plain, 2), (edit_root, 5), (scale, 2),
             (right_one, 12), (kill_a_pod, 2), (begin_to_end_a_pod, 2), (end_a_pod, 2),
             (cut_off_a_pod, 5), (join_a_pod, 3),
             (restart_a_container, 3), (start_a_manager, 2), (kill_a_manager, 4),
             (starve_a_manager, 4),
             (spoil_a_map, 3), (refuse_creates, 3), (stop_the_api_server, 1))  # fmt: skip

    def step(self, number):
        self.pick = random.Random(f"{SEED}.{number}")
        steps, weights = zip(*self.STEPS)
        (chosen,) = self.pick.choices(steps, weights)
        self.tell(f"{number}: {chosen.__name__}")
        chosen(self)
        self.pause(0, 0.05, 0.3, 1)
        if self.pick.random() < 0.08:
            self.settle()

    def live(self):
        self.start_a_manager()
        for _ in range(2):
            share = Share(self.name("shard"), self.name("slot"), "lock")
            self.slots.append(share.slot)
            self.shares.append(share)
        self.share_anew(self.shares)
        self.settle()
        for number in range(STEPS):
            self.step(number)
        self.settle()

    def test_one_owner(self):
        try:
            self.live()
        except BaseException:
            print("\n".join([f"seed {SEED}, {STEPS} steps:", *self.told]), file=sys.stderr)
            for thing in self.cluster.json(self.configs)["items"]:
                print(thing["metadata"]["name"], json.dumps(thing), file=sys.stderr)
            raise
        print(f"{STEPS} steps, {len(self.owners)} pods, {len(self.writes.all())} writes", flush=True)
