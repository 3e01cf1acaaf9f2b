"""What must not happen unseen: a policy that destroys its images, an encoder that says the same of all."""

import math

from coviews.policies.learned import AnyPolicy

OVER = 0.5  # share of the subpolicies of the last iterations over the reward's bound
ENTROPY = 0.25  # of what the policy began with
LOST = 0.95  # of the way from the reference loss to that of views that lost their image
COLLAPSED = 0.05  # spread of the normalised features, 1 where they point in all directions


def objection(policy: AnyPolicy) -> str | None:
    """Why a policy should not make views, if there is a reason."""
    seen = policy.statistics
    by_table, loss = seen.get("by") == "table", seen["loss"]
    if by_table and seen["over"] is None:
        return None  # it is the prior as it is: the table does not know better yet
    if not by_table and seen["stopped"]:
        return f"its search ended early: {seen['stopped']}"
    if loss is None or (not by_table and seen["last"] is None):
        return "its search learned nothing"
    if seen["over"] > OVER:
        return f"{seen['over']:.0%} of its views are over the bound"
    if not by_table and seen["last"]["entropy"] < ENTROPY * seen["first"]["entropy"]:
        first, last = seen["first"]["entropy"], seen["last"]["entropy"]
        return f"it draws almost always the same (entropy {last:.2f}, at first {first:.2f})"
    if seen["chance"] > seen["reference"] and loss > seen["reference"] + LOST * (seen["chance"] - seen["reference"]):
        return f"its views lose their image (loss {loss:.3f}, of unrelated images {seen['chance']:.3f})"
    return None


def collapse(spread: float) -> str | None:
    """What to say of features whose spread is tiny."""
    if math.isfinite(spread) and spread < COLLAPSED:
        return (
            f"the representation has collapsed: all images look alike to the encoder (spread {spread:.3f}, 1 is good). "
            "Try a lower --lr, a larger --batch-size or milder views."
        )
    return None
