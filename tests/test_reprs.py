"""What objects say of themselves fits on a line."""

import numpy as np
import pytest

import coviews
from coviews.features.embed import Embedding

IMAGES = coviews.load_images("shapes:12", size=8)
GENERATOR = np.random.default_rng(0)
UNIFORM = coviews.view_source("uniform")
POLICY = coviews.Policy.untrained(coviews.space("autoaugment"), GENERATOR)
TABLE = coviews.LossTable(UNIFORM)
QUEUE = coviews.PolicyQueue()
QUEUE.push(POLICY)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (IMAGES, "ImageSet(12 images of 8 x 8 x 3, uint8"),
        (UNIFORM, "Uniform(space=Space('all', "),
        (UNIFORM.sample(4, GENERATOR), "Subpolicies(4 images, 2 views, 2 steps, space 'all', p=0.8)"),
        (coviews.Plan.draw(UNIFORM, 4, (8, 9), GENERATOR), "Plan(4 images of 8 x 9, 2 views, 2 steps, space 'all')"),
        (POLICY, "Policy(coviews, 2 views, 2 steps, p=0.8, Space('autoaugment'"),
        (QUEUE, "PolicyQueue(1 of 4 policies)"),
        (TABLE, "LossTable(coviews, 0 pairs, Space('all', "),
        (TABLE.policy(GENERATOR), "TiltedPolicy(coviews, prior Uniform, Space('all', "),
        (Embedding((9, 4), None, None, None, None), "Embedding(9 images, 4 features each)"),
        (
            coviews.PretrainSettings(data="a").replaced(epochs=3, temperature=0.3),
            "PretrainSettings(data='a', method.temperature=0.3, epochs=3)",
        ),
    ],
)
def test_a_line_says_what_it_is(value, text):
    said = repr(value)
    assert said.startswith(text)
    assert len(said) < 160
    assert "\n" not in said
