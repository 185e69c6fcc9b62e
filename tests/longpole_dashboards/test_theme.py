from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_dashboards import theme

Array = NDArray[np.float64]

# Full deuteranopia and protanopia on linear RGB: Machado, Oliveira and Fernandes 2009.
VISIONS: dict[str, Array] = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}
# OKLab: Ottosson 2020.
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
# Stages that stand beside each other in most steps.
COMMON = (
    stages.GEN,
    stages.REWARD,
    stages.OLD_LOG_PROB,
    stages.REF,
    stages.ADV,
    stages.UPDATE_ACTOR,
    stages.UPDATE_WEIGHTS,
    stages.UNATTRIBUTED,
)


def linear(colour: str) -> Array:
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(rgb: Array) -> Array:
    return TO_LAB @ np.cbrt(TO_LMS @ np.minimum(np.maximum(rgb, 0.0), 1.0))


def distance(one: str, other: str, vision: str) -> float:
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def contrast(one: str, other: str) -> float:
    light = sorted(
        (float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722])) + 0.05)
        for colour in (one, other)
    )
    return light[1] / light[0]


@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_stages_look_different(vision: str) -> None:
    for one, other in combinations(theme.STAGE_COLOURS, 2):
        found = distance(theme.STAGE_COLOURS[one], theme.STAGE_COLOURS[other], vision)
        assert found > 0.07, f"{one} and {other} are {found:.3f} apart"


@pytest.mark.parametrize("vision", VISIONS)
def test_neighbours_in_a_bar_look_clearly_different(vision: str) -> None:
    for one, other in pairwise(COMMON):
        found = distance(theme.STAGE_COLOURS[one], theme.STAGE_COLOURS[other], vision)
        assert found > 0.10, f"{one} and {other} are {found:.3f} apart"


def test_every_canonical_stage_has_its_own_colour() -> None:
    named = {kind.name for kind in stages.STAGE_KINDS} | {stages.UNATTRIBUTED}
    assert set(theme.STAGE_COLOURS) == named
    assert len(set(theme.STAGE_COLOURS.values())) == len(named)


def test_an_unknown_stage_looks_like_unattributed_time() -> None:
    assert theme.stage_colour("warp") == theme.STAGE_COLOURS[stages.UNATTRIBUTED]
    assert theme.stage_label("my_own_stage") == "my own stage"


@pytest.mark.parametrize("name", theme.ROLES)
def test_writing_can_be_read_on_every_ground(name: theme.ThemeName) -> None:
    roles = theme.ROLES[name]
    for ground in (roles.canvas, roles.surface, roles.raised):
        assert contrast(roles.text, ground) > 12
        assert contrast(roles.muted, ground) > 5.5
        for colour in (roles.faint, roles.accent, roles.good, roles.warn, roles.bad):
            assert contrast(colour, ground) >= 4.5, (colour, ground)


@pytest.mark.parametrize("name", theme.ROLES)
def test_the_heat_scale_goes_one_way(name: theme.ThemeName) -> None:
    lightness = [float(lab(linear(stop))[0]) for stop in theme.ROLES[name].heat]
    rising = sorted(lightness)
    assert lightness in (rising, rising[::-1])


def test_css_defines_every_role_in_both_themes() -> None:
    css = theme.css_variables()
    for name in ("canvas", "surface", "text", "accent", "bad", "heat"):
        assert css.count(f"--lp-{name}:") == len(theme.ROLES)
    assert "--lp-stage-update-actor:" in css


def test_verdicts_take_the_colour_of_their_family() -> None:
    assert theme.verdict_colour("rollout.long_tail") == theme.STAGE_COLOURS[stages.GEN]
    assert theme.verdict_colour("sync.weights") == theme.STAGE_COLOURS[stages.UPDATE_WEIGHTS]
    assert theme.verdict_colour(None) == theme.STAGE_COLOURS[stages.UNATTRIBUTED]


def test_translucent() -> None:
    assert theme.translucent("#ff8000", 0.5) == "rgba(255, 128, 0, 0.5)"
