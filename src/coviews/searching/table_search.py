"""Search by table: before every epoch, a policy follows from a table of effects fitted to training's own losses.

It costs no encoder pass: training tells what was done to every pair of views and how high its loss was.
"""

from collections.abc import Mapping
from typing import Any

from coviews.ops.plan import Plan
from coviews.policies.learned import AnyPolicy
from coviews.policies.tilted import TiltedPolicy
from coviews.searching.contract import Search, SearchContext, SearchReport
from coviews.searching.guards import loss_objection, over_objection
from coviews.searching.loss_table import LossTable, TableSettings
from coviews.searching.measures import SearchMeasure

# titles of the statistics for trackers
_NUMBERS = {
    "explained": "explained variance", "explained_without_crops": "explained variance without crops",
    "hardness": "hardness", "over": "over the bound", "accepted": "accepted",
}  # fmt: skip


class TableSearch(Search):
    """The prior, tilted towards views that the loss table expects to be hard."""

    settings_type = TableSettings
    measures = (
        SearchMeasure(
            "explained",
            "Variance of a pair's loss that the table explains",
            "Before every epoch, a table of what each choice adds to a pair's loss is fitted to the pairs that "
            "training had seen.",
            "share, of pairs it was not fitted to",
            percent=True,
        ),
        SearchMeasure(
            "explained_without_crops",
            "Variance that a table of the operations alone explains",
            "The same fit without the effects of where the two crops lie.",
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

    def __init__(self, settings: TableSettings, context: SearchContext) -> None:
        self.context = context
        self.table = LossTable(
            context.first_source,
            kind=context.kind,
            settings=settings,
            chance=context.chance(context.batch_size),
            placement=context.placement,
        )
        self._policy: TiltedPolicy | None = None  # the last one

    def observe(self, plan: Plan, losses: Any) -> None:
        """Remember a batch."""
        self.table.add(plan, losses)

    def before_epoch(self, epoch: int) -> TiltedPolicy:
        """The policy that follows from the pairs so far."""
        self._policy = self.table.policy(self.context.generator(epoch))
        return self._policy

    @staticmethod
    def objection(policy: AnyPolicy) -> str | None:
        """Destroyed views; a policy that is the prior as it is gets none."""
        statistics = policy.statistics
        if statistics["over"] is None:
            return None
        if statistics["loss"] is None:
            return "its search learned nothing"
        return over_objection(statistics) or loss_objection(statistics)

    def report(self) -> SearchReport:
        """What the last fit says, and how far the policy went."""
        assert self._policy is not None
        s = self._policy.statistics
        numbers = {title: s[key] for key, title in _NUMBERS.items() if s.get(key) is not None}
        title = f"table of {s['pairs']:,} pairs"
        if s["over"] is None:
            text = f"views stay as they are, as {s['limited_by']}"
            return SearchReport(s, numbers, f"{title}:", text, brief=True, changed=False)
        limit = f" for the sake of the {s['limited_by']}" if s["limited_by"] else ""
        alone = s.get("explained_without_crops")
        crops = "" if alone is None else f" ({alone:.0%} without crops)"
        text = (
            f"explains {s['explained']:.0%}{crops} · hardness {s['hardness']:.3f} of {s['target']:.3f}{limit} · "
            f"over the bound {s['over']:.0%}"
        )
        return SearchReport(s, numbers, title, text, brief=True)

    def state_dict(self) -> dict[str, Any]:
        """What the table remembers."""
        return self.table.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where the table was that gave this state."""
        self.table.load_state_dict(dict(state))
