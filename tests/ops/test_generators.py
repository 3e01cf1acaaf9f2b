"""Generators: torch's are taken too, and copies of one in the workers of a DataLoader do not make the same views."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import coviews
from coviews import CoviewsError, Plan

UNIFORM = coviews.view_source("uniform")


class Planned(Dataset):
    """A data set that holds a generator, as users write it: every worker gets a copy."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        plan = Plan.draw(UNIFORM, 1, (32, 32), self.generator)
        return torch.from_numpy(np.concatenate([plan.boxes.ravel(), plan.ops.ravel(), plan.levels.ravel()]))


def test_workers_and_epochs_have_different_views():
    def two_epochs(seed):
        torch.manual_seed(seed)
        loader = DataLoader(Planned(0), batch_size=2, num_workers=2)
        return torch.cat([batch for _ in range(2) for batch in loader])

    plans = two_epochs(3)
    assert len(plans) == 16
    assert len(plans.unique(dim=0)) == 16
    assert torch.equal(plans, two_epochs(3))  # torch's seed decides
    assert not torch.equal(plans, two_epochs(4))


def test_a_torch_generator_draws():
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    first = Plan.draw(UNIFORM, 4, (8, 8), one)
    assert first == Plan.draw(UNIFORM, 4, (8, 8), other)
    assert first != Plan.draw(UNIFORM, 4, (8, 8), one)  # it has moved on
    table = coviews.LossTable(UNIFORM)
    assert table.policy(one).statistics == table.policy(torch.Generator()).statistics


@pytest.mark.parametrize("generator", [None, 0, np.random])
def test_what_is_no_generator_is_an_error(generator):
    with pytest.raises(CoviewsError, match=r"np\.random\.default_rng\(seed\) or a torch\.Generator"):
        Plan.draw(UNIFORM, 4, (8, 8), generator)


def test_tensors_for_images_are_an_error_that_says_what_to_write():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    plan = Plan.draw(UNIFORM, 2, (8, 8), np.random.default_rng(0))
    for tensor in (images, images / 255):
        with pytest.raises(CoviewsError, match=r"\(B, H, W, C\), not Tensor: give images") as error:
            coviews.make_views(tensor, plan)
        expression = str(error.value).split("give ")[1].split(" of a tensor")[0]
        assert np.array_equal(eval(expression, {"images": tensor}), pixels)
    for wrong in (images, pixels[0], pixels[:, None] / 255):
        with pytest.raises(CoviewsError, match="to_tensors takes the array"):
            coviews.to_tensors(wrong)
