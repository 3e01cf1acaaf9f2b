"""Charts of what the policies prefer: over the epochs, and of one policy at a time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.policies.placement_effects import EDGES
from coviews.policies.statistics import PolicyStatistics
from coviews.policies.tilted_statistics import PlacementStatistics
from coviews.report.charts import BarChart, Chart, Line, LineChart, Matrix, plain
from coviews.report.record import RunRecord

Statistics = dict[int, PolicyStatistics]

_NAMED = 6  # operations with a colour of their own: more cannot be told apart
_COMMON = 0.02  # kinds of crop pairs that are rarer in the prior are not worth a sentence
_DIFFERENT = {
    "mirrored": ("mirrored alike", "one of the two mirrored"),
    "upside down": ("upside down alike", "one of the two upside down"),
    "turned": ("turned alike", "turned by different angles"),
}
_LIFT = (0.25, 1.0)  # the smallest and the largest distance from 1 at the ends of the colour scale of lift


class PolicyFrame(NamedTuple):
    """One policy, as the page shows it when its slider is there."""

    label: str
    text: str
    charts: list[Chart]


def favourites(statistics: PolicyStatistics, count: int = 4) -> list[tuple[str, float]]:
    """The operations that are drawn most often, with their probability in a step."""
    mean = statistics.ops.mean((0, 1))
    return [(statistics.space.ops[i], float(mean[i])) for i in np.argsort(-mean, kind="stable")[:count]]


def operation_order(statistics: PolicyStatistics) -> list[int]:
    """The operations, the likeliest first."""
    return np.argsort(-statistics.ops.mean((0, 1)), kind="stable").tolist()


def over_epochs(statistics: Statistics, key: str, title: str, order: Sequence[int] | None = None) -> list[Chart]:
    """How each operation's probability changes: as colours, and as lines.

    order: of the operations; by default the newest policy's likeliest first.
    """
    if not statistics:
        return []
    epochs = sorted(statistics)
    newest = statistics[epochs[-1]]
    order = list(order) if order is not None else operation_order(newest)
    shares = np.stack([statistics[e].ops.mean((0, 1)) for e in epochs], 1)[order]  # (O, epochs)
    ops = [newest.space.ops[i] for i in order]
    most = ", ".join(f"{op} {p:.1%}" for op, p in favourites(newest))
    even = 1 / len(ops)
    alt = f"{title}: at epoch {epochs[-1]} most often {most}; if all were equal, each would have {even:.1%}."
    columns = [f"epoch {e}" for e in epochs]
    matrix = Matrix(key, title, "policy learned before", "", columns, ops, plain(shares), alt)
    x = [float(e) for e in epochs]
    lines = [Line(op, x, shares[i].tolist(), faint=i >= _NAMED) for i, op in enumerate(ops)]
    lines.append(Line("if all were equal", [x[0], x[-1]], [even, even], dashed=True))
    changed = ", ".join(f"{op} from {shares[i, 0]:.1%} to {shares[i, -1]:.1%}" for i, op in enumerate(ops[:4]))
    lines_alt = f"From epoch {epochs[0]} to {epochs[-1]}: {changed}." if len(epochs) > 1 else alt
    lines_title = f"{title}: the likeliest as lines"
    chart = LineChart(f"{key}-lines", lines_title, "epoch", "probability in a step", lines, lines_alt, percent=True)
    return [matrix, chart]


def one_policy(statistics: PolicyStatistics, order: Sequence[int], *, lift: float, most: float) -> list[Chart]:
    """Bars for each view and step, co-occurrence, lift and levels of one policy, its operations in this order."""
    s, order = statistics, list(order)
    ops = [s.space.ops[i] for i in order]
    bars = {
        f"view {v + 1}, step {t + 1}": [round(float(p), 4) for p in s.ops[v, t, order]]
        for v in range(s.ops.shape[0])
        for t in range(s.ops.shape[1])
    }
    by_view = "; ".join(
        f"view {v + 1} most often draws {ops[int(np.argmax(s.mean_ops[v][order]))]}" for v in range(len(s.mean_ops))
    )
    together, lifts = s.co_occurrence[np.ix_(order, order)], s.lift[np.ix_(order, order)]
    place = np.unravel_index(np.argmax(together), together.shape)
    pair = f"{ops[place[0]]} with {ops[place[1]]} ({together[place]:.1%})"
    axes = ("view 2", "view 1")
    with_level = [i for i in order if s.space.has_magnitude[i]]
    level_p = s.level_given_op[with_level]
    level_names = [[s.space.describe(i, k) for k in range(s.space.levels)] for i in with_level]
    charts: list[Chart] = [
        BarChart("operations", "Operations in each step", "probability", ops, bars, f"Operations by step: {by_view}."),
        Matrix(
            "co-occurrence", "Operations that meet in a pair of views", *axes, ops, ops, plain(together, 5),
            f"Co-occurrence of the operations of the two views: most often {pair}.", ".2%", limits=(0.0, most),
        ),
        Matrix(
            "lift", "Lift: how much more often than if views were independent", *axes, ops, ops, plain(lifts, 3),
            f"Lift of the pairs, from {lifts.min():.2f} to {lifts.max():.2f}; 1 means that the views do not know of "
            "each other.", ".2f", around=1.0, limits=(1 - lift, 1 + lift),
        ),
    ]  # fmt: skip
    if with_level:
        likeliest = (level_names[n][int(np.argmax(row))] for n, row in enumerate(level_p) if not np.isnan(row).any())
        alt = "The likeliest level of each operation: " + ", ".join(likeliest)
        columns = [str(k) for k in range(s.space.levels)]
        rows = [s.space.ops[i] for i in with_level]
        charts.append(
            Matrix("levels", "Levels, given the operation", "level", "", columns, rows, plain(level_p), alt + ".",
                   limits=(0.0, 1.0 if np.isnan(level_p).all() else float(np.nanmax(level_p))), texts=level_names)
        )  # fmt: skip
    return charts


def scales(statistics: Sequence[PolicyStatistics]) -> dict[str, float]:
    """The ends of the colour scales that several policies share."""
    distance = max((float(np.abs(s.lift - 1).max()) for s in statistics), default=0.0)
    return {
        "lift": min(max(distance, _LIFT[0]), _LIFT[1]),
        "most": max((float(s.co_occurrence.max()) for s in statistics), default=1.0),
    }


def policy_frames(run: RunRecord) -> list[PolicyFrame]:
    """The charts of each policy, in the order of the epochs; operations and scales are the same in all of them."""
    if not run.statistics:
        return []
    epochs = sorted(run.statistics)
    order, ends = operation_order(run.statistics[epochs[-1]]), scales(list(run.statistics.values()))
    with_crops = [s.placement for s in run.statistics.values() if s.placement is not None]
    frames = []
    for epoch in epochs:
        s = run.statistics[epoch]
        charts = one_policy(s, order, **ends)
        if with_crops:  # a policy that leaves crops to chance has the prior's
            prior = with_crops[-1].prior
            charts.append(placement_chart(s.placement or PlacementStatistics(prior, prior), prior > 0))
        frames.append(PolicyFrame(f"policy learned before epoch {epoch}", policy_text(s), charts))
    return frames


def placement_chart(statistics: PlacementStatistics, possible: NDArray[np.bool_]) -> BarChart:
    """How likely each kind of crop pair is under a policy and under its prior.

    possible: which bins the prior draws at all; features with a single one of them are left out.
    """
    labels: list[str] = []
    indices: list[int] = []
    first = 0
    for feature, edges in EDGES.items():
        own = [i for i in range(len(edges) + 1) if possible[first + i]]
        if len(own) > 1:
            labels += [_bin_label(feature, edges, i) for i in own]
            indices += [first + i for i in own]
        first += len(edges) + 1
    policy, prior = statistics.policy[indices], statistics.prior[indices]
    ratio = np.divide(policy, prior, out=np.ones_like(prior), where=prior >= _COMMON)
    most, least = int(np.argmax(ratio)), int(np.argmin(ratio))
    alt = (
        f"Where the two crops of a pair lie. Of what is common in the prior, the policy draws more often above all: "
        f"{labels[most]} ({ratio[most]:.2f} times as often); less often above all: {labels[least]} "
        f"({ratio[least]:.2f} times as often)."
    )
    bars = {"policy": [round(float(p), 4) for p in policy], "prior": [round(float(p), 4) for p in prior]}
    title = "Pairs of crops, against those of the prior"
    return BarChart("placement", title, "probability", labels, bars, alt)


def _bin_label(feature: str, edges: tuple[float, ...], i: int) -> str:
    """A bin in words, such as `overlap 20–40 %`."""
    if feature in _DIFFERENT:
        return _DIFFERENT[feature][i]
    if feature == "overlap" and i == len(edges):
        return "one crop within the other"
    as_text = "{:g}".format if feature == "area ratio" else lambda x: f"{100 * x:.0f}"
    unit = "" if feature == "area ratio" else " %"
    if i == 0:
        return f"{feature} below {as_text(edges[0])}{unit}"
    if i == len(edges):
        return f"{feature} {as_text(edges[-1])}{unit} or more"
    return f"{feature} {as_text(edges[i - 1])}–{as_text(edges[i])}{unit}"


def policy_text(statistics: PolicyStatistics) -> str:
    """A policy in a few sentences."""
    s = statistics
    most = ", ".join(f"{op} {p:.1%}" for op, p in favourites(s))
    error = f" Probabilities are within ± {2 * s.error:.1%}." if s.error >= 5e-4 else ""
    return (
        f"Most often: {most}. Variety (entropy of an operation): {s.entropy.mean():.2f} of at most "
        f"{np.log2(len(s.space.ops)):.2f} bits. Cooperation: an operation of view 1 tells {s.information:.3f} "
        f"bits of one of view 2.{error}"
    )
