"""How well the alert rules tell trouble from noise, on runs whose truth is known.

    .venv/bin/python benchmarks/alert_quality.py [--seeds 20] [--first-seed 0] [--case NAME ...]
        [--jobs 1] [--rlwatch PYTHON] [--save FILE] [--of FILE ...]

Leaks and their look-alikes pass through the engines' own series, once with floors that are drawn
(`leak/`) and once from engines that serve requests one by one (`field/`). Health, staleness and
pace pass through what trainers log, in two sets that share nothing but the rules (`health/`,
`field_health/`); odd runs (`odd/`) have bursts, gaps, other scales, many replicas; leaks and lags
of other shapes are seen by other scrapers (`foreign/`); GPUs, nodes, the server and stalls are
looked at every half minute (`hardware/`). Each seed draws
every case anew, noise and all. Prints recall, delay in steps and false alarms a day by case and
rule. Exits with 1 when a target is missed: recall 0.95, no
false alarm on a benign run, and a leak that fills the pool in 200 steps told before a quarter of
the remaining room is gone.

Many seeds may be judged piece by piece: `--save` adds what came of a piece to a file, `--of` judges
nothing and prints what such files hold together.

Beside it stands the PyPI package rlwatch, on the detectors that both have, with its own defaults.
It lives in an environment of its own, and without it the rest is printed all the same:

    python3 -m venv /tmp/rlwatch && /tmp/rlwatch/bin/pip install rlwatch
    .venv/bin/python benchmarks/alert_quality.py --rlwatch /tmp/rlwatch/bin/python
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.rule import Rule
from support.alert_field_cases import FIELD_CASES
from support.alert_field_health import FIELD_HEALTH_CASES
from support.alert_foreign_cases import FOREIGN_CASES
from support.alert_hardware_cases import HARDWARE_CASES
from support.alert_health_cases import ADVANTAGES, ENTROPY, GRAD, HEALTH_CASES, KL, LOSS, REWARD
from support.alert_labels import Labelled, Outcome, compare_firings, judge_labelled
from support.alert_leak_cases import LEAK_CASES
from support.alert_odd_cases import ODD_CASES

CASES = {
    **{f"leak/{name}": case for name, case in LEAK_CASES.items()},
    **{f"field/{name}": case for name, case in FIELD_CASES.items()},
    **{f"health/{name}": case for name, case in HEALTH_CASES.items()},
    **{f"field_health/{name}": case for name, case in FIELD_HEALTH_CASES.items()},
    **{f"odd/{name}": case for name, case in ODD_CASES.items()},
    **{f"foreign/{name}": case for name, case in FOREIGN_CASES.items()},
    **{f"hardware/{name}": case for name, case in HARDWARE_CASES.items()},
}
# Of engines alone: all but leaks is judged by other cases.
ENGINE_CASES = frozenset(
    f"foreign/{name}" for name in FOREIGN_CASES if not name.startswith(("lag_", "drops_"))
)
MIN_RECALL = 0.95
MAX_HEADROOM = 0.25
HEADROOM_CASE = "leak/leak_in_200"
# What rlwatch calls our rules; what is not listed only one of the two has.
RULES_OF_RLWATCH = {
    "entropy_collapse": "entropy.collapse",
    "kl_explosion": "kl.high",
    "reward_hacking": "reward.jump",
    "reward_mean_drift": "reward.jump",
    "advantage_variance": "advantage.variance",
    "loss_nan": "loss.nan",
    "gradient_norm_spike": "grad.spike",
}
SHARED = "longpole on the detectors that both have"
SHARED_RULES = frozenset({*RULES_OF_RLWATCH.values(), "reward.collapse"})
# Runs in the other environment: series in, (detector, step) out. Its own cooldown is kept.
RLWATCH_PROGRAM = """
import contextlib, json, sys
import numpy as np
from rlwatch.config import RLWatchConfig
from rlwatch.detectors import DetectorSuite
found = []
for run in json.load(sys.stdin):
    config = RLWatchConfig()
    suite, quiet, fired = DetectorSuite(config), {}, []
    for step, values in enumerate(run, 1):
        if values.get("rewards") is not None:
            values["rewards"] = np.array(values["rewards"])
        with contextlib.redirect_stdout(sys.stderr):
            alerts = suite.check_step(step, **values)
        for alert in alerts:
            if step >= quiet.get(alert.detector, 0):
                fired.append((alert.detector, step))
                quiet[alert.detector] = step + config.alerts.cooldown_steps
    found.append(fired)
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True)
class Result:
    """What became of one run of one case."""

    case: str
    is_trouble: bool
    rule: str
    days: float
    outcome: Outcome


def main() -> int:
    options = parse_options()
    if options.of:
        return report_saved([line for path in options.of for line in path.open(encoding="utf-8")])
    names = options.case or list(CASES)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    started_s = time.monotonic()
    ours: list[Result] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        judge = partial(judge_case, seeds=seeds)
        for found in map(judge, names) if options.jobs == 1 else pool.map(judge, names):
            ours += found
    found = {"longpole": ours}
    if options.rlwatch is not None:
        found[SHARED], found["rlwatch"] = compare_rlwatch(options.rlwatch, ours, seeds)
    fine = report_all(found)
    if options.save is not None:
        save(options.save, found)
    print(f"\n{time.monotonic() - started_s:.0f} s")
    return 0 if fine else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="runs of each case, default 20")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--case", nargs="*", choices=sorted(CASES), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="processes, default 1")
    parser.add_argument("--save", type=Path, metavar="FILE", help="adds the results to it")
    parser.add_argument("--of", type=Path, nargs="*", metavar="FILE", help="files of --save")
    parser.add_argument("--rlwatch", help="Python of an environment that has rlwatch")
    return parser.parse_args()


def draw(name: str, seed: int) -> Labelled:
    """Return the run of a case that a seed draws."""
    return CASES[name](np.random.default_rng([seed, zlib.crc32(name.encode())]))


def choose_rules(name: str) -> list[Rule]:
    """Return the rules that a case is judged by: all that read what it holds."""
    if name.startswith(("leak/", "field/")) or name in ENGINE_CASES:
        return [rule for rule in BUILT_IN_RULES if rule.rule_id == "kv.leak"]
    trigger = "time" if name.startswith("hardware/") else "step"
    return [rule for rule in BUILT_IN_RULES if rule.trigger == trigger]


def judge_case(name: str, seeds: Sequence[int]) -> list[Result]:
    """Judge a case's runs."""
    rules = choose_rules(name)
    return [
        make_result(name, labelled, judge_labelled(labelled, rules))
        for labelled in (draw(name, seed) for seed in seeds)
    ]


def make_result(name: str, labelled: Labelled, outcome: Outcome) -> Result:
    rule = next(iter(labelled.expected), "")
    return Result(name, bool(labelled.expected), rule, labelled.days, outcome)


def save(path: Path, found: Mapping[str, Sequence[Result]]) -> None:
    """Add results to a file, a line each."""
    with path.open("a", encoding="utf-8") as file:
        for who, results in found.items():
            for result in results:
                print(json.dumps({"who": who, **asdict(result)}), file=file)


def report_saved(lines: Iterable[str]) -> int:
    """Print what saved results say together."""
    found: dict[str, list[Result]] = defaultdict(list)
    for line in lines:
        fields = json.loads(line)
        who, outcome = fields.pop("who"), fields.pop("outcome")
        outcome |= {name: tuple(outcome[name]) for name in ("missed", "false")}
        found[who].append(Result(**fields, outcome=Outcome(**outcome)))
    return 0 if report_all(found) else 1


def report_all(found: Mapping[str, Sequence[Result]]) -> bool:
    """Print everything; tell whether every target is met."""
    fine = report("longpole", found["longpole"])
    report_rules(found["longpole"])
    if "rlwatch" in found:
        print("\nOn the detectors that both have:")
        report("longpole", found[SHARED])
        print()
        report("rlwatch", found["rlwatch"])
    else:
        print("\nrlwatch: not compared (--rlwatch PYTHON, see --help)")
    return fine


def report_rules(results: Iterable[Result]) -> None:
    """Print recall and delay of each rule, over all of its cases."""
    by_rule: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.is_trouble:
            by_rule[result.rule].append(result)
    print(f"\n{'rule':40} {'':24} recall  delay  p90  false/day  false")
    for rule, found in sorted(by_rule.items()):
        print(describe(f"{rule} ({len(found)} runs)", found))


def report(title: str, results: Iterable[Result]) -> bool:
    """Print what came of it by case; tell whether every target is met."""
    by_case: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_case[result.case].append(result)
    print(f"{title:40} {'rule':24} recall  delay  p90  false/day  false")
    for case, found in by_case.items():
        print(describe(case, found))
    every = [result for found in by_case.values() for result in found]
    trouble = [result for result in every if result.is_trouble]
    benign = [result for result in every if not result.is_trouble]
    recall = measure_recall(trouble)
    false_benign = sum(len(result.outcome.false) for result in benign)
    false_trouble = sum(len(result.outcome.false) for result in trouble)
    days = sum(result.days for result in every)
    print(
        f"in all: recall {recall:.3f} of {len(trouble)} runs; "
        f"{false_benign} false alarms in {len(benign)} benign runs, {false_trouble} in the others, "
        f"{(false_benign + false_trouble) / max(1e-9, days):.3f} a day"
    )
    heads = [
        result.outcome.headroom_used
        for result in by_case.get(HEADROOM_CASE, [])
        if result.outcome.headroom_used is not None
    ]
    if heads:
        print(f"a leak that fills the pool in 200 steps is told with {max(heads):.0%} used at most")
    worst = min(
        (measure_recall(found) for found in by_case.values() if found[0].is_trouble), default=1.0
    )
    return worst >= MIN_RECALL and not false_benign and max(heads, default=0.0) < MAX_HEADROOM


def measure_recall(found: Sequence[Result]) -> float:
    return sum(not each.outcome.missed for each in found) / len(found) if found else math.nan


def describe(case: str, found: Sequence[Result]) -> str:
    false = [each for result in found for each in result.outcome.false]
    rate = len(false) / max(1e-9, sum(result.days for result in found))
    delays = sorted(
        result.outcome.delay_steps for result in found if result.outcome.delay_steps is not None
    )
    numbers = f"{'-':>6}  {'-':>5}  {'-':>3}"
    if found[0].is_trouble:
        middle = f"{statistics.median(delays):.0f}" if delays else "-"
        late = f"{delays[int(0.9 * (len(delays) - 1))]}" if delays else "-"
        numbers = f"{measure_recall(found):6.3f}  {middle:>5}  {late:>3}"
    shown = " ".join(sorted(set(false))[:3])
    return f"{case:40} {found[0].rule or 'none':24} {numbers}  {rate:9.3f}  {shown}"


def compare_rlwatch(
    python: str, ours: Sequence[Result], seeds: Sequence[int]
) -> tuple[list[Result], list[Result]]:
    """Return what both say on the rules that both have: Longpole, rlwatch."""
    shared: list[Result] = []
    theirs: list[Result] = []
    for name in dict.fromkeys(result.case for result in ours if result.case.startswith("health/")):
        own = [result for result in ours if result.case == name]
        if own[0].rule and own[0].rule not in SHARED_RULES:
            continue
        runs = [draw(name, seed) for seed in seeds]
        for labelled, firings in zip(runs, run_rlwatch(python, runs), strict=True):
            theirs.append(make_result(name, labelled, compare_firings(labelled, firings)))
        shared += map(leave_shared, own)
    return shared, theirs


def leave_shared(result: Result) -> Result:
    """Return a result without false alarms of rules that rlwatch does not have."""
    false = [each for each in result.outcome.false if each.partition("@")[0] in SHARED_RULES]
    return replace(result, outcome=replace(result.outcome, false=tuple(false)))


def run_rlwatch(python: str, runs: Sequence[Labelled]) -> list[list[tuple[str, int]]]:
    """Return what rlwatch makes of the runs, in our rules' names."""
    series = [
        [read_step(labelled, index) for index in range(len(labelled.points))] for labelled in runs
    ]
    done = subprocess.run(
        [python, "-c", RLWATCH_PROGRAM],
        input=json.dumps(series),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"rlwatch failed under {python}:\n{done.stderr[-2_000:]}")
    return [
        [(name_rule(labelled, detector), step) for detector, step in fired]
        for labelled, fired in zip(runs, json.loads(done.stdout), strict=True)
    ]


def name_rule(labelled: Labelled, detector: str) -> str:
    """Return our name of a detector; those of rewards are for both directions."""
    rule = RULES_OF_RLWATCH[detector]
    is_collapse = rule == "reward.jump" and "reward.collapse" in labelled.expected
    return "reward.collapse" if is_collapse else rule


def read_step(labelled: Labelled, index: int) -> dict[str, object]:
    """Return what rlwatch asks for, of one step."""
    scalars = labelled.points[index].scalars
    return {
        "entropy": scalars[ENTROPY],
        "kl_divergence": scalars[KL],
        "reward_mean": scalars[REWARD],
        "rewards": labelled.rewards[index] if labelled.rewards else None,
        "advantage_std": scalars[ADVANTAGES],
        "loss": scalars[LOSS],
        "grad_norm": scalars[GRAD],
    }


if __name__ == "__main__":
    sys.exit(main())
