"""How often the diagnosis is right on runs whose truth is known.

    .venv/bin/python benchmarks/diagnosis_accuracy.py [--seeds 40] [--scenario NAME ...]
        [--data full|scalars|noisy ...] [--first-seed 0] [--jobs 1]
        [--show-wrong 20] [--save FILE] [--near-limits]
    .venv/bin/python benchmarks/diagnosis_accuracy.py --read FILE ...

Every scenario of the simulator's library is drawn anew for every seed: cluster, lengths, speeds,
shares. The same run is judged with all its data, as a bare log, and with noisy and partly missing
data. Prints a confusion matrix, accuracy by scenario and in all, and how often a wrong verdict was
`high`. Exits with 1 when a target is missed. Targets: 97 % right with all data, 90 % with scalars
only, and no wrong verdict of high confidence. What is measured are clear cases: a run whose truth
lies within a few percent of a limit is drawn again, and without all data every verdict counts as
right that the remaining data cannot tell from the truth. With `--near-limits` only those unclear
runs are drawn, where two honest observers may differ: it says how often the verdict is the one of
the other side, and with what confidence. The default takes some 13 minutes of one
core; with `--save` its judgements are kept, so that several shorter runs can be reported as one by
`--read`.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from longpole_sim.library import LIBRARY
from longpole_sim.variation import NoExampleError, draw_example
from support.offline_judging import Judgement, judge_example
from support.offline_variants import FULL, SCALARS, VARIANTS

TARGETS = {FULL: 0.97, SCALARS: 0.90}


def main() -> int:
    options = parse_options()
    started_s = time.monotonic()
    judged = read_judgements(options.read) if options.read else judge_runs(options)
    if options.save is not None:
        save_judgements(options.save, judged)
    judgements: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judged:
        judgements[judgement.variant].append(judgement)
    fine = True
    for variant, found in judgements.items():
        fine &= report(variant, found, options.show_wrong)
    print(f"{time.monotonic() - started_s:.0f} s")
    return 0 if fine else 1


def judge_runs(options: argparse.Namespace) -> list[Judgement]:
    """Draw and judge all runs that were asked for."""
    names = options.scenario or list(LIBRARY)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    judge = partial(
        judge_scenario,
        seeds=seeds,
        variants=options.data or VARIANTS,
        near_limits=options.near_limits,
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        each = map(judge, names) if options.jobs == 1 else pool.map(judge, names)
        return [judgement for found in each for judgement in found]


def save_judgements(path: Path, judged: Sequence[Judgement]) -> None:
    """Write one JSON line for each judgement."""
    with path.open("w", encoding="utf-8") as file:
        for judgement in judged:
            file.write(json.dumps(asdict(judgement), default=sorted) + "\n")


def read_judgements(paths: Sequence[Path]) -> list[Judgement]:
    """Read what `save_judgements` wrote."""
    found: list[Judgement] = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            for name in ("accepted", "visible"):
                fields[name] = frozenset(fields[name])
            for name in ("missed_findings", "undue_findings"):
                fields[name] = tuple(fields[name])
            found.append(Judgement(**fields))
    return found


def judge_scenario(
    name: str, seeds: Sequence[int], variants: Sequence[str], *, near_limits: bool = False
) -> list[Judgement]:
    """Judge one scenario's runs; near the limits, those of them that can be drawn there."""
    found: list[Judgement] = []
    for seed in seeds:
        try:
            example = draw_example(name, seed, near_limits=near_limits)
        except NoExampleError:
            if not near_limits:
                raise
            continue
        found += judge_example(example, seed, variants)
    return found


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=40, help="runs of each scenario, default 40")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--scenario", nargs="*", choices=sorted(LIBRARY), metavar="NAME")
    parser.add_argument("--data", nargs="*", choices=VARIANTS)
    parser.add_argument("--jobs", type=int, default=1, help="processes, default 1")
    parser.add_argument(
        "--near-limits", action="store_true", help="only runs that lie near a limit"
    )
    parser.add_argument("--show-wrong", type=int, default=20, help="wrong verdicts to show")
    parser.add_argument("--save", type=Path, help="keep the judgements as JSON lines")
    parser.add_argument(
        "--read", type=Path, nargs="+", help="report kept judgements, judge nothing"
    )
    return parser.parse_args()


def report(variant: str, found: list[Judgement], show_wrong: int) -> bool:
    """Print how one variant of the data did and return whether it meets its targets."""
    wrong = [item for item in found if not item.is_right]
    wrong_high = [item for item in found if item.is_wrong_high]
    accuracy = 1 - len(wrong) / len(found)
    target = TARGETS.get(variant)
    print(f"\n=== {variant}: {accuracy:.1%} of {len(found)} runs right", end="")
    print("" if target is None else f" (target {target:.0%})", end="")
    print(f", {len(wrong_high)} wrong verdicts of high confidence (target 0)")
    print_confidence(found)
    print_confusion(found)
    print_scenarios(found)
    for item in (wrong_high + [item for item in wrong if item not in wrong_high])[:show_wrong]:
        print(f"  wrong: {item.describe()}")
    return (target is None or accuracy >= target) and not wrong_high


def print_confidence(found: list[Judgement]) -> None:
    """Print how many right and wrong verdicts there are of each confidence."""
    for confidence in ("high", "medium", "low"):
        rated = [item for item in found if item.confidence == confidence]
        wrong = sum(not item.is_right for item in rated)
        print(f"  {confidence}: {len(rated) - wrong} right, {wrong} wrong")


def print_confusion(found: list[Judgement]) -> None:
    """Print for every truth what was said, most often first."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for item in found:
        table[item.truth][item.said + ("" if item.is_right else " (wrong)")] += 1
    print("truth -> said")
    for truth in sorted(table):
        said = ", ".join(f"{name} {count}" for name, count in table[truth].most_common())
        print(f"  {truth:<42} {said}")


def print_scenarios(found: list[Judgement]) -> None:
    """Print accuracy and findings by scenario, those with something wrong only."""
    by_name: dict[str, list[Judgement]] = defaultdict(list)
    for item in found:
        by_name[item.scenario].append(item)
    for name, items in by_name.items():
        right = sum(item.is_right for item in items)
        missed = Counter(code for item in items for code in item.missed_findings)
        undue = Counter(code for item in items for code in item.undue_findings)
        if right < len(items) or missed or undue:
            line = f"  {name:<28} {right}/{len(items)}"
            line += f"  missed {dict(missed)}" if missed else ""
            print(line + (f"  undue {dict(undue)}" if undue else ""))


if __name__ == "__main__":
    sys.exit(main())
