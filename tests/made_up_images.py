"""Images of every kind that the exactness tests use."""

import numpy as np

CONTENTS = ("flat", "gradient", "noise", "photograph", "dark", "two colours")


def _photographs() -> list[np.ndarray]:
    from sklearn.datasets import load_sample_images

    return list(load_sample_images().images)


class Pictures:
    """Test images by content, height, width and channels."""

    def __init__(self) -> None:
        self.photographs = _photographs()

    def make(self, content: str, h: int, w: int, c: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng([seed, h, w, c, CONTENTS.index(content)])
        match content:
            case "flat":
                image = np.broadcast_to(rng.integers(0, 256, c), (h, w, c))
            case "gradient":
                ramp = np.linspace(0, 255, h)[:, None] * 0.4 + np.linspace(0, 255, w)[None] * 0.6
                image = ramp[..., None] * rng.uniform(0.5, 1, c)
            case "noise":
                image = rng.integers(0, 256, (h, w, c))
            case "photograph":
                photo = self.photographs[rng.integers(len(self.photographs))]
                y, x = rng.integers(0, photo.shape[0] - h), rng.integers(0, photo.shape[1] - w)
                image = photo[y : y + h, x : x + w, :c]
            case "dark":
                image = rng.integers(0, 9, (h, w, c))
            case "two colours":
                one, other = rng.integers(0, 256, (2, c))
                image = np.where(rng.random((h, w, 1)) < 0.3, one, other)
            case _:
                raise AssertionError(content)
        return np.ascontiguousarray(image).astype(np.uint8)
