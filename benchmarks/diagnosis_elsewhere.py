"""How often the diagnosis agrees with the specification on runs that nobody tuned it for.

    .venv/bin/python benchmarks/diagnosis_elsewhere.py [--seeds 5] [--first-seed 0]
        [--label NAME ...] [--view full|no_gpus|no_engines|engines_only|bare|both|timers ...]
        [--log verl_old|verl|verl_file|slime|openrlhf|nemo_rl|areal|skyrl|roll|prime_rl ...]
        [--store] [--say 200]

Runs are made up by `tests/support/elsewhere_*.py` from the written specification alone, sent as
OTLP and decoded, assembled and judged by the product, in memory or, with `--store`, through a store
and the service; the same runs are written as the log files of their trainers and read as those.
Prints every disagreement and a table; exits with 1 when there is one.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.elsewhere_judging import (
    LOG_LABELS,
    VIEWS,
    Disagreement,
    Heard,
    StoreJudge,
    compare,
    hear,
    hear_log,
)
from support.elsewhere_logs import LOGS
from support.elsewhere_troubles import TROUBLES
from support.server_service import opened_bench


@dataclass
class Tally:
    """What was heard so far."""

    num_runs: int = 0
    num_bad: int = 0
    num_high: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])

    def add(self, heard: Heard, view: str, num_words: int) -> None:
        found = list(compare(heard, view))
        self.num_runs += 1
        self.num_bad += bool(found)
        self.num_high += any(
            each.kind in {"verdict", "must not be"} and each.confidence == "high" for each in found
        )
        for each in found:
            print(describe(each, num_words), flush=True)
            what = each.wanted if "finding" in each.kind else each.said
            self.kinds[f"{each.label} [{view}] {each.kind}: {what}"] += 1

    def report(self, began_s: float) -> int:
        for what, count in sorted(self.kinds.items()):
            print(f"{count:5d}  {what}")
        print(
            f"{self.num_runs} runs, {self.num_bad} with a disagreement, {self.num_high} wrong with "
            f"high confidence, {time.monotonic() - began_s:.0f} s"
        )
        return 1 if self.kinds else 0


def main() -> int:
    options = parse_options()
    tally, began_s = Tally(), time.monotonic()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        listen = hear
        if options.store:
            listen = StoreJudge(stack.enter_context(opened_bench(Path(directory)))).hear
        for label, view in product(options.label, options.view):
            for seed in seeds:
                tally.add(listen(label, seed, view), view, options.say)
        labels: list[str] = [label for label in LOG_LABELS if label in options.label]
        for label, log in product(labels, options.log):
            for seed in seeds:
                heard = hear_log(label, seed, log, Path(directory))
                if heard is not None:
                    tally.add(heard, log, options.say)
    return tally.report(began_s)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--label", nargs="*", default=list(TROUBLES))
    parser.add_argument("--view", nargs="*", default=list(VIEWS))
    parser.add_argument("--log", nargs="*", default=list(LOGS))
    parser.add_argument("--store", action="store_true", help="through a store: ten times slower")
    parser.add_argument("--say", type=int, default=200, help="letters of a summary that are shown")
    return parser.parse_args()


def describe(each: Disagreement, num_words: int) -> str:
    return (
        f"{each.label} seed {each.seed} {each.view} {each.window}: {each.kind} {each.wanted}; said "
        f"{each.said} {each.confidence}: {each.summary[:num_words]}"
    )


if __name__ == "__main__":
    sys.exit(main())
