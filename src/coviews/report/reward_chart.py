"""The reward's shape for several tolerances: the paper's figure."""

import numpy as np

from coviews.report.charts import Line, LineChart
from coviews.searching.reward import BoundedReward

_TOLERANCES = (1e-5, 0.1, 0.2, 0.5, 1e5)
_HARDEST, _LOWEST = 1.8, -1.0


def reward_chart(threshold: float = 1.3) -> LineChart:
    """The reward over the hardness of a pair (its loss over the reference), for a fixed threshold."""
    lines = []
    for i, tolerance in enumerate(_TOLERANCES):
        end = min(_HARDEST, threshold + tolerance * (1 - _LOWEST / threshold))  # of the falling part
        hardness = np.concatenate([np.linspace(0.6, threshold, 50), np.linspace(threshold, end, 50)[1:]])
        reward = BoundedReward("ratio", threshold, tolerance)(hardness, 1.0, 10.0)
        shade = i / (len(_TOLERANCES) - 1)
        lines.append(Line(f"b = {tolerance:g}", hardness.tolist(), reward.tolist(), shade=shade))
    alt = (
        f"The reward rises with a pair's hardness up to the threshold {threshold:g}. Beyond it, it falls the more "
        "steeply the smaller the tolerance b is, and stays where it is for a very large one."
    )
    title = f"Bounded InfoNCE reward, threshold {threshold:g}"
    return LineChart("reward", title, "hardness: the pair's loss over the reference", "reward", lines, alt)
