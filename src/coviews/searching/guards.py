"""What must not happen unseen: a policy whose views no longer show their image."""

from typing import Any

MOST_OVER = 0.5  # share of the subpolicies over the reward's bound
LOST = 0.95  # of the way from the reference loss to that of unrelated views
EASIER = 0.02  # of the way from the reference loss to that of unrelated views: less is noise


def over_objection(statistics: dict[str, Any]) -> str | None:
    """An objection to a policy of which too many views are over the bound."""
    return f"{statistics['over']:.0%} of its views are over the bound" if statistics["over"] > MOST_OVER else None


def loss_objection(statistics: dict[str, Any]) -> str | None:
    """An objection to a policy whose loss is about that of unrelated views."""
    loss, reference, chance = (statistics[name] for name in ("loss", "reference", "chance"))
    if chance > reference and loss > reference + LOST * (chance - reference):
        return f"its views lose their image (loss {loss:.3f}, of unrelated images {chance:.3f})"
    return None


def easier_objection(statistics: dict[str, Any]) -> str | None:
    """An objection to a policy whose views are easier than the reference, where they should be harder."""
    loss, reference, chance = (statistics[name] for name in ("loss", "reference", "chance"))
    if statistics.get("target", 0.0) > 0 and chance > reference > loss + EASIER * (chance - reference):
        return f"its views are easier than before (loss {loss:.3f}, of the reference {reference:.3f})"
    return None
