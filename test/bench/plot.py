# SPDX-License-Identifier: Apache-2.0
"""Draws what `bench --json` writes as SVG: in each row the ratio of every proxy to the first one.

    plot.py RESULTS.json >FILE.svg

The scale is logarithmic: twice as much is as far to the right as half as much to the left. A bar goes
to the last proxy's median, a mark is another one's; the line through each is its range over the
reference's median. Rows of which more is better are left out.
"""

import json
import math
import sys
from xml.sax.saxutils import escape

ROW, LABEL, PLOT, HEAD, SIDE, COLUMNS = 24, 370, 520, 64, 56, 7
COLOURS = ["#d55e00", "#cc79a7", "#b8860b", "#56b4e9", "#8f6bd1", "#7f7f7f", "#c44e52", "#8c6d4f",
           "#4c9f9f", "#a0a000", "#9b59b6", "#5d8aa8"]
OWN = "#2a9d5c"
STEPS = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64]
# Both on light and on dark ground.
STYLE = """
    text { font: 12px sans-serif; fill: #57606a }
    .grid { stroke: #8b949e; stroke-opacity: .3 }
    .one { stroke: #8b949e; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) { text { fill: #b1bac4 } }
"""


def ratios_of(document):
    """[(title, {subject: (lowest, median, highest)})], over the reference's median."""
    reference, found = document["reference"], []
    for row, (title, unit, *_) in document["rows"].items():
        base = document["summary"].get(reference, {}).get(row, {}).get("median", 0)
        marks = {subject: tuple(rows[row][what] / base for what in ("min", "median", "max"))
                 for subject, rows in document["summary"].items()
                 if subject != reference and row in rows and base > 0 and rows[row]["median"] > 0}
        if marks and unit != "1/s":
            found.append((title, marks))
    return found


class Scale:
    """From a ratio to a place, within what the medians need."""

    def __init__(self, rows):
        medians = [1, *(mark[1] for _, marks in rows for mark in marks.values())]
        self.low, self.high = math.log2(min(medians) / 1.2), math.log2(max(medians) * 1.2)
        self.steps = [s for s in STEPS if self.low <= math.log2(s) <= self.high]

    def x(self, ratio):
        share = (math.log2(max(ratio, 1e-9)) - self.low) / (self.high - self.low)
        return LABEL + PLOT * min(max(share, 0), 1)


def name_of(step):
    return f"{step:g}" if step >= 1 else f"1/{round(1 / step)}"


def line(x1, y1, x2, y2, more):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {more}/>'


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def draw_grid(scale, top, bottom):
    parts = []
    for step in scale.steps:
        x = scale.x(step)
        parts += [line(x, top, x, bottom, f'class="{"one" if step == 1 else "grid"}"'),
                  text(x, bottom + 16, name_of(step), 'text-anchor="middle"')]
    return parts


def draw_mark(scale, y, mark, colour, own):
    low, median, high = mark
    x, parts = scale.x(median), []
    if own:
        left = min(x, scale.x(1))
        parts.append(f'<rect x="{left:.1f}" y="{y - 6}" width="{abs(x - scale.x(1)):.1f}" height="12" '
                     f'fill="{colour}" fill-opacity=".55"/>')
    parts += [line(scale.x(low), y, scale.x(high), y, f'stroke="{colour}" stroke-width="1.5"'),
              f'<circle cx="{x:.1f}" cy="{y}" r="{4 if own else 3}" fill="{colour}"/>']
    return parts


def draw_names(colours, reference):
    parts = [text(8, 18, f"ratio to {reference}: less is to the left, and better")]
    for n, (subject, colour) in enumerate(colours.items()):
        x, y = 14 + n % COLUMNS * 125, 38 + n // COLUMNS * 18
        parts += [f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/>', text(x + 9, y, subject)]
    return parts


def draw(document):
    """The text of the picture."""
    rows = ratios_of(document)
    subjects = [s for s in document["summary"] if any(s in marks for _, marks in rows)]
    own = subjects[-1] if subjects else None
    colours = {s: OWN if s == own else COLOURS[n % len(COLOURS)] for n, s in enumerate(subjects)}
    top = HEAD + len(subjects) // COLUMNS * 18
    height = top + ROW * len(rows)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LABEL + PLOT + SIDE} '
             f'{height + 28}" role="img">', f"<title>{escape('cost of each proxy')}</title>",
             f"<style>{STYLE}</style>", *draw_names(colours, document["reference"])]
    if rows:
        scale = Scale(rows)
        parts += draw_grid(scale, top, height)
        for n, (title, marks) in enumerate(rows):
            y = top + ROW * n + ROW // 2
            parts.append(text(LABEL - 10, y + 4, title, 'text-anchor="end"'))
            for subject in sorted(marks, key=lambda s: s != own):
                parts += draw_mark(scale, y, marks[subject], colours[subject], subject == own)
            if own in marks:
                parts.append(text(LABEL + PLOT + 8, y + 4, f"{marks[own][1]:.2f}"))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        print(draw(json.load(f)), end="")
