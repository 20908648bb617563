#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is made of the samples: medians, the best peer, the picture, the index of what is kept."""

import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import plot
import report
import results

SVG = "{http://www.w3.org/2000/svg}"
ROWS = {
    "cpu": ("CPU <each>", "us", 1, ""),
    "rate": ("requests", "1/s", 0, ""),
    "added": ("added latency", "us", 0, ""),
}
SAMPLES = {
    "nginx": {"cpu": [40, 50, 60], "rate": [100], "added": [-1]},
    "haproxy": {"cpu": [25], "rate": [200], "added": [4]},
    "direct": {"rate": [900]},
    "localproxy": {"cpu": [20, 10, 30], "rate": [300], "added": [2]},
}


def document():
    summary = report.summarise(SAMPLES)
    return {"machine": {"cpu": "a CPU", "cores": 2, "kernel": "6", "load": 0.1}, "commit": "abc",
            "date": "2026-01-02", "versions": {"nginx": "nginx 1"}, "rounds": 3,
            "reference": "nginx", "rows": ROWS, "samples": SAMPLES, "summary": summary}


class Report(unittest.TestCase):
    def test_the_best_peer_of_each_row(self):
        text = report.best_table(report.summarise(SAMPLES), ["localproxy"], ROWS)
        lines = [" ".join(line.split()) for line in text.splitlines()]
        self.assertEqual(lines, [
            "unit best peer its figure localproxy ratio",
            "CPU <each> us haproxy 25.0 20.0 0.80",
            "requests 1/s haproxy 200 300 1.50",
            "added latency us nginx -1 2 -",
        ])

    def test_there_is_no_best_peer_without_peers(self):
        summary = report.summarise({name: SAMPLES[name] for name in ("direct", "localproxy")})
        self.assertIsNone(report.best_table(summary, ["localproxy"], ROWS))
        self.assertIsNone(report.best_table(report.summarise(SAMPLES), [], ROWS))

    def test_parts_have_all_and_each_the_reference(self):
        summary = report.summarise(SAMPLES)
        parts = [list(part) for part in report.in_parts(summary, "nginx", 2)]
        self.assertEqual(parts, [["nginx", "haproxy", "direct"], ["nginx", "localproxy"]])
        self.assertEqual([list(p) for p in report.in_parts({"nginx": {}}, "nginx", 2)], [["nginx"]])


class Plot(unittest.TestCase):
    def test_ratios_are_of_rows_of_which_less_is_better(self):
        rows = plot.ratios_of(document())
        self.assertEqual(rows, [("CPU <each>", {"haproxy": (0.5, 0.5, 0.5),
                                                "localproxy": (0.2, 0.4, 0.6)})])

    def test_the_picture(self):
        root = xml.etree.ElementTree.fromstring(plot.draw(document()))
        words = [element.text for element in root.iter(f"{SVG}text")]
        for expected in ("haproxy", "localproxy", "CPU <each>", "0.40"):
            self.assertIn(expected, words)
        bar, = root.iter(f"{SVG}rect")
        ends = {round(float(e.get("x1"))): e for e in root.iter(f"{SVG}line")
                if e.get("class") == "one"}
        one, = ends
        self.assertAlmostEqual(float(bar.get("x")) + float(bar.get("width")), one, delta=1)

    def test_twice_as_much_is_as_far_as_half(self):
        scale = plot.Scale(plot.ratios_of(document()))
        self.assertAlmostEqual(scale.x(1) - scale.x(0.7), scale.x(0.7) - scale.x(0.49))
        self.assertEqual(scale.x(1e9), plot.LABEL + plot.PLOT)
        self.assertEqual(scale.x(0), plot.LABEL)

    def test_a_picture_of_nothing(self):
        empty = document() | {"summary": {"nginx": {}}}
        xml.etree.ElementTree.fromstring(plot.draw(empty))


class Results(unittest.TestCase):
    def test_runs_are_kept_with_an_index_the_latest_first(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = results.keep(document(), folder=folder)
            results.keep(document() | {"date": "2026-01-03", "plotted": False}, "-more", folder)
            name = f"{results.version()}-2026-01-02-abc"
            self.assertEqual([os.path.basename(p) for p in paths],
                             [f"{name}.json", f"{name}.svg", "README.md"])
            with open(paths[0], encoding="utf-8") as f:
                self.assertEqual(json.load(f)["samples"], SAMPLES)
            with open(paths[2], encoding="utf-8") as f:
                rows = [line for line in f if line.startswith("| [")]
            later = f"{results.version()}-2026-01-03-abc-more"
            self.assertTrue(rows[0].startswith(f"| [{later}]({later}.json) |"), rows[0])
            self.assertTrue(rows[1].startswith(f"| [{name}]({name}.json), [plot]({name}.svg) |"))

    def test_the_version_is_that_of_the_project(self):
        self.assertRegex(results.version(), r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$")


if __name__ == "__main__":
    unittest.main()
