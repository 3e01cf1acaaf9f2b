"""Charts of what the policies prefer: over the epochs, and of one policy at a time."""

from collections.abc import Iterable, Sequence
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
_RATIO = (0.25, 1.0)  # the smallest and the largest distance from 1 at the ends of a colour scale of ratios
_ALIKE = 0.03  # what is drawn within this share as often as in the prior was not learned


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
    """The operations, Identity aside, those first that the policy prefers most to its prior."""
    order = np.argsort(-statistics.preference, kind="stable").tolist()
    return [i for i in order if i != statistics.space.identity]


def preference_limit(statistics: Iterable[PolicyStatistics]) -> float:
    """The distance from 1 at the ends of a colour scale of preferences."""
    distances = [np.abs(s.preference[operation_order(s)] - 1).max(initial=0.0) for s in statistics]
    return float(np.clip(max(distances, default=0.0), *_RATIO))


def over_epochs(statistics: Statistics, key: str, title: str, order: Sequence[int] | None = None) -> list[Chart]:
    """How much more often than in the prior each operation is drawn: as colours, and as lines.

    order: of the operations; by default those first that the newest policy prefers most.
    """
    if not statistics:
        return []
    epochs = sorted(statistics)
    newest = statistics[epochs[-1]]
    order = list(order) if order is not None else operation_order(newest)
    ratios = np.stack([statistics[e].preference for e in epochs], 1)[order]  # (O, epochs)
    ops = [newest.space.ops[i] for i in order]
    alt = f"{title}, against the prior, at epoch {epochs[-1]}: {learned_text(newest)}"
    columns, limit = [f"epoch {e}" for e in epochs], preference_limit(statistics.values())
    matrix = Matrix(
        key, f"{title}: how much more often than in the prior", "policy learned before", "", columns, ops,
        plain(ratios, 3), alt, ".2f", around=1.0, limits=(1 - limit, 1 + limit),
    )  # fmt: skip
    x = [float(e) for e in epochs]
    named = {*range(_NAMED // 2), *range(len(ops) - _NAMED // 2, len(ops))}  # the most and the least preferred
    lines = [Line(op, x, ratios[i].tolist(), faint=i not in named) for i, op in enumerate(ops)]
    lines.append(Line("as in the prior", [x[0], x[-1]], [1.0, 1.0], dashed=True))
    changed = ", ".join(f"{ops[i]} from {ratios[i, 0]:.2f} to {ratios[i, -1]:.2f}" for i in sorted(named)[:4])
    lines_alt = f"Times as often as in the prior, from epoch {epochs[0]} to {epochs[-1]}: {changed}."
    lines_title = f"{title}: the most and the least preferred"
    chart = LineChart(f"{key}-lines", lines_title, "epoch", "times as often as in the prior", lines, lines_alt)
    return [matrix, chart]


def clear_preferences(statistics: PolicyStatistics) -> tuple[list[int], list[int]]:
    """The operations that are clearly drawn more often than in the prior, and those less often, the clearest first."""
    s = statistics
    noise = np.maximum(_ALIKE, 2 * s.error / np.maximum(s.prior, 1e-9))  # by less, an operation is as in the prior
    order = [i for i in operation_order(s) if abs(s.preference[i] - 1) > noise[i]]
    return [i for i in order if s.preference[i] > 1], [i for i in reversed(order) if s.preference[i] < 1]


def learned_text(statistics: PolicyStatistics) -> str:
    """In a sentence, what a policy draws more and less often than its prior, or that nothing was learned."""
    s = statistics
    more, less = (indices[:3] for indices in clear_preferences(s))
    parts = [
        f"{word} often than in the prior: "
        + ", ".join(f"{s.space.ops[i]} ({s.preference[i]:.2f} times)" for i in indices)
        for word, indices in (("more", more), ("less", less))
        if indices
    ]
    crops = crop_preferences(s.placement)
    if crops:
        parts.append("pairs of crops: " + ", ".join(f"{label} ({ratio:.2f} times as often)" for label, ratio in crops))
    if not parts:
        return f"nothing was learned, views are within {_ALIKE:.0%} of the prior."
    return "; ".join(parts) + "."


def crop_preferences(statistics: PlacementStatistics | None) -> list[tuple[str, float]]:
    """The kinds of crop pairs that are drawn more and less often than in the prior above all, if any clearly are."""
    if statistics is None:
        return []
    labels, indices = _placement_labels(statistics.prior > 0)
    policy, prior = statistics.policy[indices], statistics.prior[indices]
    ratio = np.divide(policy, prior, out=np.ones_like(prior), where=prior >= _COMMON)
    ends = (int(np.argmax(ratio)), int(np.argmin(ratio))) if len(ratio) else ()
    return [(labels[i], float(ratio[i])) for i in ends if abs(ratio[i] - 1) > _ALIKE]


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
    shown = [(s, np.ix_(operation_order(s), operation_order(s))) for s in statistics]
    distance = max((float(np.abs(s.lift[cells] - 1).max(initial=0.0)) for s, cells in shown), default=0.0)
    return {
        "lift": float(np.clip(distance, *_RATIO)),
        "most": max((float(s.co_occurrence[cells].max(initial=0.0)) for s, cells in shown), default=1.0),
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
    labels, indices = _placement_labels(possible)
    policy, prior = statistics.policy[indices], statistics.prior[indices]
    preferred = ", ".join(f"{label} ({ratio:.2f} times as often)" for label, ratio in crop_preferences(statistics))
    alt = (
        "Where the two crops of a pair lie. Of what is common in the prior, the policy draws more and less often above "
        f"all: {preferred or 'nothing'}."
    )
    bars = {"policy": [round(float(p), 4) for p in policy], "prior": [round(float(p), 4) for p in prior]}
    title = "Pairs of crops, against those of the prior"
    return BarChart("placement", title, "probability", labels, bars, alt)


def _placement_labels(possible: NDArray[np.bool_]) -> tuple[list[str], list[int]]:
    """The bins that the prior draws, in words, and their indices; features with a single one are left out."""
    labels: list[str] = []
    indices: list[int] = []
    first = 0
    for feature, edges in EDGES.items():
        own = [i for i in range(len(edges) + 1) if possible[first + i]]
        if len(own) > 1:
            labels += [_bin_label(feature, edges, i) for i in own]
            indices += [first + i for i in own]
        first += len(edges) + 1
    return labels, indices


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
    s, learned = statistics, learned_text(statistics)
    error = f" Probabilities are within ± {2 * s.error:.1%}." if s.error >= 5e-4 else ""
    return (
        f"{learned[0].upper()}{learned[1:]} Variety (entropy of an operation): {s.entropy.mean():.2f} of at most "
        f"{np.log2(len(s.space.ops)):.2f} bits. Cooperation: an operation of view 1 tells {s.information:.3f} "
        f"bits of one of view 2.{error}"
    )
