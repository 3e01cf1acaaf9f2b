import numpy as np
import pytest

from coviews import CoviewsError
from coviews.data.shown_channels import picture_levels, shown_channels, shown_text


def test_which_channels_are_shown():
    assert [shown_channels(None, n) for n in (1, 2, 3, 6)] == [(0,), (0,), (0, 1, 2), (0, 1, 2)]
    assert shown_channels("6,2,1", 6) == (5, 1, 0)
    assert shown_channels("2", 2) == (1,)
    assert [shown_text(None, n) for n in (1, 2, 3)] == ["", "channel 1 of 2 is shown", ""]
    assert shown_text("3,2,1", 3) == "channels 3, 2, 1 of 3 are shown as red, green and blue"


@pytest.mark.parametrize("text", ["", "0", "1,2", "1,2,3,4", "a,b,c", "-1", "1, 2, 3", "999"])
def test_wrong_choices(text):
    with pytest.raises(CoviewsError, match=r"such as 3,2,1"):
        shown_channels(text, 6)


def test_levels_of_any_depth():
    deep = np.arange(0, 65536, 16, np.uint16).reshape(2, 4, 128, 4)
    assert np.array_equal(picture_levels(deep, (3, 0, 1)), (deep[..., [3, 0, 1]] // 256).astype(np.uint8))
    plain = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert picture_levels(plain) is plain  # nothing is copied
    assert np.array_equal(picture_levels(plain, (1,)), plain[..., 1:2])
