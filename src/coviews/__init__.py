"""Self-supervised pretraining that learns its own augmentations."""

import importlib
from typing import TYPE_CHECKING, Any

from coviews.data.load import ImageSet, load_images
from coviews.errors import CoviewsError
from coviews.find_policy import SearchSettings, search
from coviews.ops.engine import apply_op, make_views
from coviews.ops.space import Space, space
from coviews.ops.table import OPS
from coviews.policies.fixed import view_source
from coviews.policies.learned import Policy, load_policy
from coviews.policies.network import NetworkSettings
from coviews.policies.queue import PolicyQueue
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.policies.tilted import TiltedPolicy
from coviews.scorer import ViewSettings
from coviews.search.ppo import PPOSettings, SearchStep
from coviews.search.reward import BoundedReward
from coviews.search.table import LossTable, TableSettings

if TYPE_CHECKING:
    from coviews.assess import Evaluation, evaluate
    from coviews.comparison.compare import Comparison, compare
    from coviews.comparison.reproduce import reproduce
    from coviews.config import PretrainSettings
    from coviews.embedding import Embedding, embed
    from coviews.exported import Exported, export
    from coviews.learners.encoder_file import load_encoder
    from coviews.learners.encoders import make_encoder
    from coviews.learners.losses import info_nce
    from coviews.learners.pixels import channel_statistics, to_tensors
    from coviews.nearest_images import Neighbours, neighbours
    from coviews.train import Pretrained, pretrain

__version__ = "0.1.0"

# what needs torch is imported when it is asked for: making views does not wait for it
_LATE = {
    "Comparison": "coviews.comparison.compare",
    "Embedding": "coviews.embedding",
    "Evaluation": "coviews.assess",
    "Exported": "coviews.exported",
    "Neighbours": "coviews.nearest_images",
    "PretrainSettings": "coviews.config",
    "Pretrained": "coviews.train",
    "channel_statistics": "coviews.learners.pixels",
    "compare": "coviews.comparison.compare",
    "embed": "coviews.embedding",
    "evaluate": "coviews.assess",
    "export": "coviews.exported",
    "info_nce": "coviews.learners.losses",
    "load_encoder": "coviews.learners.encoder_file",
    "make_encoder": "coviews.learners.encoders",
    "neighbours": "coviews.nearest_images",
    "pretrain": "coviews.train",
    "reproduce": "coviews.comparison.reproduce",
    "to_tensors": "coviews.learners.pixels",
}

__all__ = [
    "OPS",
    "BoundedReward",
    "Comparison",
    "CoviewsError",
    "Embedding",
    "Evaluation",
    "Exported",
    "ImageSet",
    "LossTable",
    "Neighbours",
    "NetworkSettings",
    "PPOSettings",
    "Policy",
    "PolicyQueue",
    "PretrainSettings",
    "Pretrained",
    "SearchSettings",
    "SearchStep",
    "Space",
    "Subpolicies",
    "TableSettings",
    "TiltedPolicy",
    "ViewSettings",
    "ViewSource",
    "apply_op",
    "channel_statistics",
    "compare",
    "embed",
    "evaluate",
    "export",
    "info_nce",
    "load_encoder",
    "load_images",
    "load_policy",
    "make_encoder",
    "make_views",
    "neighbours",
    "pretrain",
    "reproduce",
    "search",
    "space",
    "to_tensors",
    "view_source",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'coviews' has no attribute {name!r}")
