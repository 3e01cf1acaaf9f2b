"""The page of the search study: the table and the picture, from the results file.

python benchmarks/search_study_page.py docs/results/search-study.json docs/search-study
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

COLUMNS = {"reward": "reward", "hardness": "loss / uniform's", "over": "over the bound", "cosine": "cosine"}


def row(name: str, runs: list[dict], base: float) -> str:
    cells = []
    for key in COLUMNS:
        values = np.array([r[key] for r in runs])
        shown = f"{values.mean():.3f}"
        cells.append(f"{shown} ± {values.std(ddof=1):.3f}" if key == "reward" and len(values) > 1 else shown)
    entropy, seconds = (np.mean([r[k] for r in runs]) for k in ("entropy", "seconds"))
    return f"| {name} | {' | '.join(cells)} | {entropy:.2f} | {seconds / base:.2f} |"


def table(title: str, variants: dict[str, list[dict]], base: float) -> str:
    head = f"| {title} | {' | '.join(COLUMNS.values())} | entropy | time |\n|---|" + "---|" * (len(COLUMNS) + 2)
    return "\n".join([head, *(row(name, runs, base) for name, runs in variants.items())])


def plot(results: dict, path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), width_ratios=[1.2, 1])
    names = list(results["variants"])
    for y, name in enumerate(names):
        rewards = [r["reward"] for r in results["variants"][name]]
        left.plot(rewards, [y] * len(rewards), "o", color="#0072b2", alpha=0.5)
        left.plot(np.mean(rewards), y, "|", color="black", markersize=14)
    left.axvline(results["uniform"]["capped 1.3"]["reward"], color="#d55e00", linestyle="--", label="uniform")
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set_xlabel("reward on fresh images (points: seeds, bar: their mean)")
    left.legend(loc="lower left")
    shown = ("default (hidden 64)", "1 image each (128 samples)", "hidden 16", "the paper's network and PPO")
    for name, colour in zip(shown, ("#0072b2", "#009e73", "#cc79a7", "#d55e00"), strict=True):
        curves = np.array([r["curve"] for r in results["variants"][name]]).mean(0)
        smooth = np.convolve(curves, np.ones(5) / 5, "valid")
        right.plot(np.arange(len(smooth)) + 3, smooth, label=name, color=colour)
    right.set_xlabel("iteration")
    right.set_ylabel("reward in the search (mean of 5 iterations)")
    right.legend(loc=(0.34, 0.4))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    results = json.loads(source.read_text())
    base = float(np.mean([r["seconds"] for r in results["variants"]["default (hidden 64)"]]))
    page = out.with_suffix(".md")
    text = page.read_text() if page.exists() else "<!-- tables -->\n<!-- end -->\n"
    start, end = text.index("<!-- tables -->"), text.index("<!-- end -->")
    uniform = "\n".join(
        f"| {name} | {u['reward']:.3f} | {u['hardness']:.3f} | {u['over']:.3f} | {u['cosine']:.3f} |"
        for name, u in results["uniform"].items()
    )
    parts = [
        f"{results['images']} images, {results['epochs']} epochs, {results['seeds']} seeds. {results['versions']}.",
        table("variant", results["variants"], base),
        table("bound", results["bounds"], base),
        "| `uniform` under the bound | reward | loss / uniform's | over the bound | cosine |\n|---|---|---|---|---|\n"
        + uniform,
        table("second search", results["second search"], base),
    ]
    page.write_text(text[:start] + "<!-- tables -->\n" + "\n\n".join(parts) + "\n" + text[end:])
    plot(results, out.with_suffix(".png"))


if __name__ == "__main__":
    main()
