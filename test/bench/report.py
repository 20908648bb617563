# SPDX-License-Identifier: Apache-2.0
"""Medians, ranges and ratios, as a table and as JSON."""

import os
import platform
import statistics

from measures import EVENTS_PER_WATCH, MANY_WATCHES, ROWS, WATCHES


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load": round(os.getloadavg()[0], 2)}


def summarise(samples):
    """{proxy: {row: [values]}} -> {proxy: {row: {median, min, max, n}}}"""
    return {proxy: {row: {"median": statistics.median(values), "min": min(values),
                          "max": max(values), "n": len(values)}
                    for row, values in rows.items() if values}
            for proxy, rows in samples.items()}


def ratios(summary, reference):
    """Each median over the reference's; nothing where that is zero or less (added latency can
    be)."""
    base = summary.get(reference, {})
    return {proxy: {row: figures["median"] / base[row]["median"]
                    for row, figures in rows.items()
                    if row in base and base[row]["median"] > 0 and figures["median"] > 0}
            for proxy, rows in summary.items() if proxy != reference}


def cell(figures, decimals):
    def show(value):
        return f"{value:,.{decimals}f}"
    if figures is None:
        return "-"
    if figures["n"] == 1:
        return show(figures["median"])
    return f"{show(figures['median'])} ({show(figures['min'])}..{show(figures['max'])})"


def aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                               for i, (text, width) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)


def table(summary, reference, rows=None):
    """`rows`: {row: (what it says, unit, decimals, what is aimed at, if anything)}"""
    rows = ROWS if rows is None else rows
    subjects = list(summary)
    over = ratios(summary, reference)
    others = [p for p in subjects if p in over]
    head = ["", "unit"]
    for subject in subjects:
        head += [subject, "ratio"] if subject in others else [subject]
    lines = [head + ["aim"] * any(aim for _, _, _, *aim in rows.values())]
    for row, (title, unit, decimals, *aim) in rows.items():
        if not any(row in figures for figures in summary.values()):
            continue
        line = [title, unit]
        for subject in subjects:
            line.append(cell(summary[subject].get(row), decimals))
            if subject in others:
                ratio = over[subject].get(row)
                line.append("-" if ratio is None else f"{ratio:.2f}")
        lines.append(line + aim)
    return aligned(lines)


def in_parts(summary, reference, count=4):
    """Summaries of the reference and a few others each, that a screen has room for."""
    others = [subject for subject in summary if subject != reference]
    kept = {reference: summary[reference]} if reference in summary else {}
    for n in range(0, max(1, len(others)), count):
        yield kept | {subject: summary[subject] for subject in others[n:n + count]}


def more_is_better(unit):
    return unit == "1/s"


def best_of(summary, subjects, row, unit):
    """Which of them has the best median in this row; None if none has one."""
    having = [s for s in subjects if row in summary.get(s, {})]
    pick = max if more_is_better(unit) else min
    return pick(having, key=lambda s: summary[s][row]["median"], default=None)


def best_table(summary, ours, rows, others=("direct",)):
    """The last of `ours` beside the best peer of each row; None without a peer. `others` are neither."""
    subject = ours[-1] if ours else None
    peers = [s for s in summary if s not in ours and s not in others]
    lines = [["", "unit", "best peer", "its figure", subject, "ratio"]]
    for row, (title, unit, decimals, *_) in rows.items():
        best = best_of(summary, peers, row, unit)
        own = summary.get(subject, {}).get(row)
        if best is None or own is None:
            continue
        base = summary[best][row]["median"]
        ratio = f"{own['median'] / base:.2f}" if base > 0 and own["median"] > 0 else "-"
        lines.append([title, unit, best, f"{base:,.{decimals}f}", f"{own['median']:,.{decimals}f}",
                      ratio])
    return aligned(lines) if len(lines) > 1 else None


def legend(reference, rounds, direct):
    without = ", ".join(f"{row[-3:]} {statistics.median(values):,.0f} "
                        f"({min(values):,}..{max(values):,})"
                        for row, values in direct.items() if values)
    return (f"Median (lowest..highest) of {rounds} rounds; ratio: median over that of "
            f"{reference}. Without a range: taken once.\n"
            f"Events: {WATCHES} watches x {EVENTS_PER_WATCH} events/s; added: beyond the same "
            f"watch without a proxy{without and f' (us: {without})'}.\n"
            f"Memory per watch: RSS beyond idle, {WATCHES} and {MANY_WATCHES} watches open. "
            "GB: of the objects, uncompressed.")
