"""Self-supervised pretraining that learns its own augmentations."""

from coviews.errors import CoviewsError
from coviews.ops.engine import apply_op, make_views
from coviews.ops.space import Space, space
from coviews.ops.table import OPS
from coviews.policies.fixed import view_source
from coviews.policies.subpolicy import Subpolicies, ViewSource

__all__ = [
    "OPS",
    "CoviewsError",
    "Space",
    "Subpolicies",
    "ViewSource",
    "apply_op",
    "make_views",
    "space",
    "view_source",
]
