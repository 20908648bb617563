# SPDX-License-Identifier: Apache-2.0
"""Rounds in which the rules of a localproxy change again and again under informers."""

import time

import checker
import harness
import informer_case
import random_rules
import resources

# client-go backs off from one 410 to the next, up to a minute.
QUIESCENCE = 120


class ReloadTestCase(informer_case.InformerTestCase):
    """With a localproxy, and a round in which clients follow it."""

    mode = "seamless"

    def proxy_options(self):
        return ["--reload-mode", self.mode, "--cut-interval", "1", "--cut-spread", "1"]

    def setUp(self):
        super().setUp()
        places = self.fixture.namespaces, resources.ALL
        self.generator = random_rules.Generator(self.pick, *places)
        self.rules = self.generator.next()
        self.proxy_process = self.start_proxy_process(self.rules.document)
        self.fixture.fill(10)

    def start_proxy_process(self, document):
        args = self.proxy_options()
        return self.proxy(document, self.cluster.kubeconfig, args, control=True)

    def follow(self, reloads, pause, url=None, disturb=None):
        """New clients, so many reloads, quiet: then all must be right."""
        judge = checker.Checker(self.cluster, self.rules, self.proxy_process.reload)
        judge.add(*self.start_clients(self.proxy_process, url))
        self.fixture.start()
        self.change(judge, reloads, pause, disturb)
        self.fixture.stop()
        self.settle(judge)

    def change(self, judge, reloads, pause, disturb=None):
        for _ in range(reloads):
            time.sleep(self.pick.random() * 2 * pause)
            if disturb is not None:
                disturb()
            self.rules = self.generator.next()
            judge.reload(self.rules)
            judge.assert_events()

    def settle(self, judge):
        delay = judge.quiesce(QUIESCENCE)
        lists, slowest = sum(judge.lists().values()), max(judge.delays) * 1000
        informer_case.report(
            f"{len(judge.delays)} reloads, the slowest {slowest:.0f} ms; caches right after "
            f"{delay:.1f} s, {lists} lists"
        )
        self.end_clients()

    def follow_all(self, reloads, pauses, url=None, disturb=None):
        """In rounds with new clients, as those that were told 410 often are slow to come back."""
        while reloads > 0:
            self.follow(min(reloads, 50), self.pick.choice(pauses), url, disturb)
            reloads -= 50
