#!/usr/bin/env python3
"""Draws what `kvpoolctl replay TRACE --simulate --csv` prints, as docs/eviction.md shows it.

    kvpoolctl replay TRACE --simulate --capacity=1000,2000,... --csv | plot.py "Title" FIGURE.svg

Needs matplotlib.
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "kvpool"  # The same figure from the same data.

from matplotlib import pyplot  # noqa: E402

LINES = {"optimum": ("0.55", "--"), "learned": ("tab:blue", "-"), "leaf_lru": ("tab:orange", "-")}


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    title, path = sys.argv[1:]
    points = {policy: [] for policy in LINES}
    for row in csv.DictReader(sys.stdin):
        points[row["policy"]].append((int(row["capacity"]), float(row["hit_percent"])))

    figure, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
    for policy, (color, style) in LINES.items():
        axes.plot(*zip(*sorted(points[policy])), style, color=color, marker=".", label=policy)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("blocks left cached after a request")
    axes.set_ylabel("blocks found, percent")
    axes.set_title(title)
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
