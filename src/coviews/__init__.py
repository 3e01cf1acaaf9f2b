"""Self-supervised pretraining that learns its own augmentations."""

import importlib
from typing import TYPE_CHECKING, Any

from coviews.data.load import ImageSet, load_images
from coviews.data.series import Series
from coviews.errors import CoviewsError
from coviews.ops.engine import apply_op, make_view_groups, make_views
from coviews.ops.operations import OPS
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.ops.python_operations import register_operation
from coviews.ops.space import Space, space
from coviews.ops.view_settings import ViewSettings
from coviews.policies.factors import Family, read_family
from coviews.policies.fixed import view_source
from coviews.policies.learned import Policy, load_policy
from coviews.policies.network import NetworkSettings
from coviews.policies.queue import PolicyQueue
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.policies.tilted import TiltedPolicy
from coviews.searching.loss_table import LossTable, TableSettings
from coviews.searching.ppo import PPOSettings, SearchStep
from coviews.searching.reward import BoundedReward
from coviews.training.search import search

if TYPE_CHECKING:
    from coviews.choosing.choice import Choice
    from coviews.choosing.choose import choose
    from coviews.choosing.options import ChooseOptions
    from coviews.comparison.compare import Comparison, compare
    from coviews.comparison.population import population_augment
    from coviews.comparison.reproduce import reproduce
    from coviews.comparison.self_augment import self_augment
    from coviews.comparison.self_randaugment import self_randaugment
    from coviews.encoders.architectures import make_encoder
    from coviews.encoders.encoder_options import ExportOptions
    from coviews.encoders.export import Exported, export
    from coviews.encoders.file import load_encoder
    from coviews.encoders.pixels import to_tensors
    from coviews.evaluation.evaluate import Evaluation, evaluate
    from coviews.evaluation.options import EvaluateOptions
    from coviews.features.embed import Embedding, embed
    from coviews.features.feature_options import EmbedOptions, NeighboursOptions
    from coviews.features.neighbours import Neighbours, neighbours
    from coviews.methods.losses import info_nce
    from coviews.methods.view_networks import load_viewmaker
    from coviews.ops.images import channel_statistics
    from coviews.runs.settings import PretrainSettings
    from coviews.training.check import Check, check
    from coviews.training.lifecycle import Pretrained
    from coviews.training.pretrain import pretrain

__version__ = "0.1.0"

# what needs torch is imported when it is asked for: making views does not wait for it
_LATE = {
    "Check": "coviews.training.check",
    "Choice": "coviews.choosing.choice",
    "ChooseOptions": "coviews.choosing.options",
    "Comparison": "coviews.comparison.compare",
    "EmbedOptions": "coviews.features.feature_options",
    "Embedding": "coviews.features.embed",
    "EvaluateOptions": "coviews.evaluation.options",
    "Evaluation": "coviews.evaluation.evaluate",
    "ExportOptions": "coviews.encoders.encoder_options",
    "Exported": "coviews.encoders.export",
    "Neighbours": "coviews.features.neighbours",
    "NeighboursOptions": "coviews.features.feature_options",
    "PretrainSettings": "coviews.runs.settings",
    "Pretrained": "coviews.training.lifecycle",
    "channel_statistics": "coviews.ops.images",
    "check": "coviews.training.check",
    "choose": "coviews.choosing.choose",
    "compare": "coviews.comparison.compare",
    "embed": "coviews.features.embed",
    "evaluate": "coviews.evaluation.evaluate",
    "export": "coviews.encoders.export",
    "info_nce": "coviews.methods.losses",
    "load_encoder": "coviews.encoders.file",
    "load_viewmaker": "coviews.methods.view_networks",
    "make_encoder": "coviews.encoders.architectures",
    "neighbours": "coviews.features.neighbours",
    "population_augment": "coviews.comparison.population",
    "pretrain": "coviews.training.pretrain",
    "reproduce": "coviews.comparison.reproduce",
    "self_augment": "coviews.comparison.self_augment",
    "self_randaugment": "coviews.comparison.self_randaugment",
    "to_tensors": "coviews.encoders.pixels",
}

__all__ = [
    "OPS",
    "BoundedReward",
    "Check",
    "Choice",
    "ChooseOptions",
    "Comparison",
    "CoviewsError",
    "EmbedOptions",
    "Embedding",
    "EvaluateOptions",
    "Evaluation",
    "ExportOptions",
    "Exported",
    "Family",
    "ImageSet",
    "LossTable",
    "Neighbours",
    "NeighboursOptions",
    "NetworkSettings",
    "PPOSettings",
    "Placement",
    "Plan",
    "Policy",
    "PolicyQueue",
    "PretrainSettings",
    "Pretrained",
    "SearchStep",
    "Series",
    "Space",
    "Subpolicies",
    "TableSettings",
    "TiltedPolicy",
    "ViewSettings",
    "ViewSource",
    "apply_op",
    "channel_statistics",
    "check",
    "choose",
    "compare",
    "embed",
    "evaluate",
    "export",
    "info_nce",
    "load_encoder",
    "load_images",
    "load_policy",
    "load_viewmaker",
    "make_encoder",
    "make_view_groups",
    "make_views",
    "neighbours",
    "population_augment",
    "pretrain",
    "read_family",
    "register_operation",
    "reproduce",
    "search",
    "self_augment",
    "self_randaugment",
    "space",
    "to_tensors",
    "view_source",
]


def __getattr__(name: str) -> Any:
    if name == "transforms":  # for loops of other libraries; it needs torch
        return importlib.import_module("coviews.transforms")
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'coviews' has no attribute {name!r}")
