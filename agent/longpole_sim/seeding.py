"""Random numbers that depend on what they are for, and on nothing else."""

import random


def random_for(*purpose: object) -> random.Random:
    """Return a generator whose numbers are the same for the same purpose, on every machine."""
    text = "/".join(str(part) for part in purpose)
    return random.Random(text)  # noqa: S311 - a simulation must repeat; nothing here is secret


def around(generator: random.Random, value: float, deviation_ratio: float = 0.015) -> float:
    """Return `value` with some noise, never further off than three deviations."""
    offset = max(-3.0, min(3.0, generator.gauss(0.0, 1.0)))
    return value * (1.0 + deviation_ratio * offset)
