"""Numbers in sentences."""

from longpole.conventions import stages


def no_closed_step(first: int | None, last: int | None) -> str:
    """Return that an inclusive range of steps, None where it is open, holds none to judge."""
    if first is None and last is None:
        return "No step is closed yet: there is nothing to judge."
    if last is None:
        where = f"from {first} on"
    elif first is None:
        where = f"up to {last}"
    else:
        where = f"between {first} and {last}"
    return f"No closed step {where}: there is nothing to judge."


def percent(ratio: float) -> str:
    """Return a ratio as whole percent; below 1 % with one digit."""
    return f"{ratio * 100:.0f} %" if ratio >= 0.0095 else f"{ratio * 100:.1f} %"


def seconds(value: float) -> str:
    """Return seconds with as many digits as matter."""
    if value >= 100:
        return f"{value:.0f} s"
    return f"{value:.1f} s" if value >= 10 else f"{value:.2g} s"


def gigabytes(value: float) -> str:
    """Return bytes in gigabytes with as many digits as matter."""
    return f"{value / 1e9:.0f} GB" if value >= 1e10 else f"{value / 1e9:.1f} GB"


def times(ratio: float) -> str:
    """Return a factor, e.g. `2.3 times`."""
    return f"{ratio:.1f} times"


def label(stage: str) -> str:
    """Return a stage's name for people."""
    kind = stages.STAGES.get(stage)
    return kind.label if kind is not None else stage.replace("_", " ")
