"""What a search records of itself, described so that the report can draw it without knowing the search."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchMeasure:
    """One value of a search's records in metrics.jsonl.

    The value is a number, which is drawn over the epochs, or a list of numbers, which is drawn over the iterations of
    the search.
    """

    key: str
    """Its name in the record."""
    title: str
    about: str
    """A sentence on how to read it."""
    axis: str = ""
    """What the vertical axis is called."""
    percent: bool = False
    """Whether it is a share, to be shown in percent."""


PPO_MEASURES = (
    SearchMeasure(
        "reward",
        "Reward in the search",
        "The reward is high for hard pairs, and low for pairs over the bound, which have lost what is in the image.",
        "reward",
    ),
    SearchMeasure(
        "over",
        "Share of pairs over the bound",
        "Pairs over the bound have lost what is in the image.",
        "over the bound",
        percent=True,
    ),
    SearchMeasure(
        "entropy",
        "Entropy of the policy in the search",
        "The lower the entropy, the fewer operations the policy prefers.",
        "entropy in nats",
    ),
)

TABLE_MEASURES = (
    SearchMeasure(
        "explained",
        "Variance of a pair's loss that the table explains",
        "Before every epoch, a table of what each choice adds to a pair's loss is fitted to the pairs that training "
        "had seen.",
        "share, of pairs it was not fitted to",
        percent=True,
    ),
    SearchMeasure(
        "hardness",
        "Hardness of the policy",
        "How far the expected loss has moved from the prior's towards that of lost images.",
        "of the way to lost images",
        percent=True,
    ),
    SearchMeasure(
        "over",
        "Share of pairs expected over the bound",
        "Pairs over the bound have lost what is in the image: the policy avoids them.",
        "over the bound",
        percent=True,
    ),
    SearchMeasure(
        "accepted",
        "Share of the prior's draws that the policy accepts",
        "The lower the share, the more the policy differs from its prior.",
        "accepted",
        percent=True,
    ),
)
