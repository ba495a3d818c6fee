"""All chance of a run, from one run seed, in named streams.

Every user of chance has a stream of its own, named by what it is for (`("rng", "n03", 1)`), so that one more draw in
one place shifts nothing anywhere else: a changed node does not change the weather of the network. Nothing here
depends on `PYTHONHASHSEED`, on the global generator of `random`, or on the order in which streams are asked for.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Randomness:
    """The source of all streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def number(self, *name: str | int) -> int:
        """64 bits that depend on the run seed and the name alone."""
        text = "\x1f".join(str(part) for part in (self.seed, *name))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    def stream(self, *name: str | int) -> Random:
        """A generator of its own for this name. It satisfies the core's `Rng`."""
        return Random(self.number(*name))

    def entropy(self, *name: str | int) -> SeededEntropy:
        """Bytes for the core's `Entropy`: as good as random to the protocol, repeatable for us."""
        return SeededEntropy(self.number(*name))


class SeededEntropy:
    """`Entropy` from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def token(self, size: int, /) -> bytes:
        """`size` bytes."""
        return self._random.randbytes(size)


def mix(value: int) -> int:
    """SplitMix64's finaliser: 64 well-mixed bits of a 64-bit counter, in under half a microsecond.

    The network draws its delays and losses with it, one counter a directed path, because a generator object for each
    of the n² paths would cost gigabytes at n = 1,000.
    """
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def step(counter: int) -> int:
    """The next counter of a `mix` stream."""
    return (counter + _GOLDEN) & _MASK


def uniform(counter: int) -> float:
    """`fraction(mix(counter))`, for where it is drawn a million times."""
    value = ((counter ^ (counter >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((value ^ (value >> 31)) >> 11) * (1.0 / (1 << 53))


def fraction(bits: int) -> float:
    """64 bits as a float in [0, 1)."""
    return (bits >> 11) * (1.0 / (1 << 53))
