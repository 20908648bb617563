# SPDX-License-Identifier: Apache-2.0
"""Informers of real client libraries follow rules that change under them: what the shard lost
leaves their caches, what it gained arrives, and nothing is shown that the rules in force hide.
"""

import harness
import reload_case


class SeamlessTest(reload_case.ReloadTestCase):
    """What was gained and lost is written into the open watches."""

    def test_random_limits(self):
        self.follow_all(harness.reloads(200), (0.01, 0.05, 0.1, 0.2))

    def test_one_after_the_other_for_long(self):
        """The same informers all the time: --reloads=900 is three minutes."""
        self.follow(harness.reloads(25), 0.2, None, None)


class CutTest(reload_case.ReloadTestCase):
    """Watches are ended, and clients list again."""

    mode = "cut"

    def test_random_limits(self):
        self.follow_all(harness.reloads(100), (0.05, 0.1))


if __name__ == "__main__":
    harness.main()
