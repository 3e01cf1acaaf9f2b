"""The operations that change values at random, in NumPy and Python's own integers."""

import numpy as np

NAMES = ("Noise", "ChannelDrop", "ChannelGain")
WORD = (1 << 64) - 1


def apply(image: np.ndarray, name: str, value: float, place, fill) -> np.ndarray:
    """One of these operations with `value` on (H, W, C)."""
    if name == "ChannelDrop":
        return drop_channel(image, place, fill)
    return (noise if name == "Noise" else channel_gain)(image, value, place)


def splitmix64(seed: int, index: int) -> int:
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def seed_of(place) -> int:
    return splitmix64(int(place[0] * 2**53), int(place[1] * 2**53))


def noise(image: np.ndarray, value: float, place) -> np.ndarray:
    """The sum of eight uniform numbers of 16 bits for each value, centred and scaled."""
    limit = np.iinfo(image.dtype).max
    seed, n = np.uint64(seed_of(place)), np.arange(1, 2 * image.size + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = seed + n * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    total = z.astype("<u8").view("<u2").reshape(-1, 8).sum(1, dtype=np.int64)
    scale = value * limit / (8 * (65536**2 - 1) / 12) ** 0.5
    values = image.ravel() + scale * (total - 8 * 65535 / 2)
    return np.clip(np.floor(values + 0.5), 0, limit).astype(image.dtype).reshape(image.shape)


def drop_channel(image: np.ndarray, place, fill) -> np.ndarray:
    result, c = image.copy(), image.shape[2]
    if c > 1:
        k = min(int(place[0] * c), c - 1)
        result[..., k] = fill[k]
    return result


def channel_gain(image: np.ndarray, value: float, place) -> np.ndarray:
    limit, seed = np.iinfo(image.dtype).max, seed_of(place)
    uniform = [(splitmix64(seed, k) >> 11) / 2**53 for k in range(image.shape[2])]
    factors = np.array([1 + value * (2 * u - 1) for u in uniform], np.float32)
    return np.clip(image.astype(np.float32) * factors, 0, limit).astype(image.dtype)
