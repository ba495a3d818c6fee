"""Randomness of a real node: choices from a seeded generator, secrets from the operating system."""

from __future__ import annotations

import os
import random


class SystemEntropy:
    """Bytes that nobody can guess (`Entropy`)."""

    def token(self, size: int, /) -> bytes:
        """`size` fresh random bytes."""
        return os.urandom(size)


def new_rng() -> random.Random:
    """A generator for the protocol's choices (`Rng`), different in each process."""
    return random.Random(os.urandom(16))
