"""The design system: colour roles, stage colours, type, spacing. Everything visible reads these.

`css_variables` turns the roles into custom properties for the style sheet, `figures.template`
turns them into Plotly templates, so that a colour is written down once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Literal

from longpole.conventions import stages

ThemeName = Literal["dark", "light"]
DEFAULT_THEME: ThemeName = "dark"

FONT_FAMILY = (
    '-apple-system, BlinkMacSystemFont, "Segoe UI", Inter, Roboto, "Helvetica Neue", '
    '"Noto Sans", "Liberation Sans", Arial, sans-serif'
)
MONO_FAMILY = (
    'ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace'
)


@dataclass(frozen=True, slots=True)
class Roles:
    """What a colour is for, as hex codes.

    Attributes:
        canvas, surface, raised: Page, panel, and what lies on a panel.
        line, grid: Borders of panels, lines inside charts.
        text, muted, faint: Three strengths of writing.
        accent: Selection, links, the one series of a chart.
        second: The second series of a chart.
        good, warn, bad: States; always beside a word or a sign, never alone.
        absent: Cells for which nothing was measured.
        heat: Stops of the sequential scale, from nothing to full.
    """

    canvas: str
    surface: str
    raised: str
    line: str
    grid: str
    text: str
    muted: str
    faint: str
    accent: str
    second: str
    good: str
    warn: str
    bad: str
    absent: str
    heat: tuple[str, ...]


ROLES: Mapping[ThemeName, Roles] = MappingProxyType(
    {
        "dark": Roles(
            canvas="#0b0d11",
            surface="#12151b",
            raised="#1a1f27",
            line="#232933",
            grid="#1d222b",
            text="#e8ecf2",
            muted="#a1acba",
            faint="#7d8a9b",
            accent="#6f9afd",
            second="#e0a458",
            good="#4fb99f",
            warn="#f0b13c",
            bad="#f2705f",
            absent="#12151b",
            heat=("#171c25", "#1c3048", "#1f4b63", "#286f7c", "#4f9a86", "#a5c99a"),
        ),
        "light": Roles(
            canvas="#f4f5f7",
            surface="#ffffff",
            raised="#f3f5f8",
            line="#dfe3e9",
            grid="#ebeef2",
            text="#151a21",
            muted="#525d6b",
            faint="#626d7b",
            accent="#2f64dc",
            second="#9c5d0c",
            good="#0f7561",
            warn="#9a5e00",
            bad="#c73a2b",
            absent="#ffffff",
            heat=("#eef1f5", "#c9e3e4", "#8cc7cc", "#4a9db5", "#26699b", "#152f63"),
        ),
    }
)

# Found by a search for the largest smallest distance between any two of them, in OKLab, as seen
# with normal, deuteranopic and protanopic vision; the hue says the family. One set for both themes.
STAGE_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        stages.PREPARE: "#65452a",
        stages.GEN: "#6f9afd",
        stages.REWARD: "#fdd241",
        stages.OLD_LOG_PROB: "#60bcb7",
        stages.REF: "#97ebde",
        stages.VALUES: "#488366",
        stages.ADV: "#d0b01f",
        stages.MAKE_EXPERIENCE: "#889c75",
        stages.UPDATE_CRITIC: "#fac297",
        stages.UPDATE_ACTOR: "#d37414",
        stages.SAVE_CHECKPOINT: "#6d2c7b",
        stages.UPDATE_WEIGHTS: "#b667a8",
        stages.SLEEP_WAKE: "#d1b8ff",
        stages.TESTING: "#6a62dc",
        stages.TRAINER_WAIT: "#bb462a",
        stages.ROLLOUT_WAIT: "#505ba7",
        stages.UNATTRIBUTED: "#59626d",
    }
)

# Where a sample's time went.
PART_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "generate": STAGE_COLOURS[stages.GEN],
        "tool": STAGE_COLOURS[stages.UPDATE_ACTOR],
        "score": STAGE_COLOURS[stages.REWARD],
        "queue": STAGE_COLOURS[stages.UNATTRIBUTED],
        "paused": STAGE_COLOURS[stages.ROLLOUT_WAIT],
    }
)

# The two halves of what an engine does of a sample's `generate`.
ENGINE_PART_COLOURS: Mapping[str, str] = MappingProxyType(
    {"prefill": STAGE_COLOURS[stages.REF], "decode": STAGE_COLOURS[stages.VALUES]}
)

# The family a verdict speaks of, by the colour of its largest stage.
FAMILY_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "rollout": STAGE_COLOURS[stages.GEN],
        "reward": STAGE_COLOURS[stages.REWARD],
        "logprob": STAGE_COLOURS[stages.OLD_LOG_PROB],
        "update": STAGE_COLOURS[stages.UPDATE_ACTOR],
        "sync": STAGE_COLOURS[stages.UPDATE_WEIGHTS],
        "overhead": STAGE_COLOURS[stages.UNATTRIBUTED],
        "async": STAGE_COLOURS[stages.TRAINER_WAIT],
        "balanced": ROLES["dark"].good,
    }
)


def stage_colour(stage: str) -> str:
    """Return the colour of a stage; a stage without one looks like unattributed time."""
    return STAGE_COLOURS.get(stage, STAGE_COLOURS[stages.UNATTRIBUTED])


def stage_label(stage: str) -> str:
    """Return what people read for a stage."""
    kind = stages.STAGES.get(stage)
    return kind.label if kind is not None else stage.replace("_", " ")


def verdict_colour(verdict: str | None) -> str:
    """Return the colour of a verdict's family."""
    family = (verdict or "").split(".", 1)[0]
    return FAMILY_COLOURS.get(family, STAGE_COLOURS[stages.UNATTRIBUTED])


def translucent(colour: str, opacity: float) -> str:
    """Return a hex colour as `rgba(...)` with an opacity in 0..1."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity:g})"


def css_variables() -> str:
    """Return the style sheet that defines `--lp-<role>` for both themes and `--lp-stage-<name>`."""
    blocks = [
        f':root[data-mantine-color-scheme="{name}"] {{ {_role_properties(roles)} }}'
        for name, roles in ROLES.items()
    ]
    stage_properties = " ".join(
        f"--lp-stage-{name.replace('_', '-')}: {colour};" for name, colour in STAGE_COLOURS.items()
    )
    fonts = f"--lp-font: {FONT_FAMILY}; --lp-mono: {MONO_FAMILY};"
    return "\n".join([f":root {{ {fonts} {stage_properties} }}", *blocks])


def _role_properties(roles: Roles) -> str:
    plain = [role.name for role in fields(roles) if role.name != "heat"]
    properties = [f"--lp-{name}: {getattr(roles, name)};" for name in plain]
    stops = ", ".join(roles.heat)
    return " ".join([*properties, f"--lp-heat: linear-gradient(90deg, {stops});"])
