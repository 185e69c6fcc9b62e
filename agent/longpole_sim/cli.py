"""The command `longpole demo`: a simulated training run that reports to a server."""

import argparse
import os
import sys
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from longpole.options import OptionParser
from longpole.output import announce
from longpole_sim.cluster import Cluster
from longpole_sim.demo import DemoError, DemoSettings, default_run_id, run_demo
from longpole_sim.library import LIBRARY
from longpole_sim.scenarios import DEFAULT_SCENARIO
from longpole_sim.workload import make_run

_DEFAULT_SERVER = "http://127.0.0.1:8470"
_MAX_NODES = 64
_MAX_GPUS_PER_NODE = 16
_MIN_SPEED, _MAX_SPEED = 0.1, 100.0


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status: 0 done, 1 failed, 2 bad arguments."""
    try:
        settings = parse_settings(arguments, os.environ)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        run_demo(settings, announce)
    except DemoError as error:
        print(f"longpole demo: {error}", file=sys.stderr)
        return 1
    return 0


def parse_settings(arguments: Sequence[str], environ: Mapping[str, str]) -> DemoSettings:
    """Return what the arguments, and for options not given the environment, ask for.

    Raises:
        SystemExit: With 2 when they are wrong, with 0 after showing the help.
    """
    options = _make_parser().parse(arguments, environ)
    run_id: str = options.run_id or default_run_id(options.scenario)
    cluster = Cluster(options.nodes, options.gpus, tag=run_id, host_prefix=options.host_prefix)
    return DemoSettings(
        run=make_run(options.scenario, options.seed, cluster=cluster, speed=options.speed),
        run_id=run_id,
        project=options.project,
        server=options.server,
        public_url=options.public_url,
        last_step=options.steps,
        token_file=options.token_file,
        ready_file=options.once_ready_file,
    )


def _make_parser() -> OptionParser:
    parser = OptionParser(
        prog="longpole demo",
        description="Simulate a training run and report it through real agents to a server.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Every option --a-b is also LONGPOLE_A_B.\n\nscenarios:\n"
        + "\n".join(_describe_scenarios()),
    )
    parser.add_argument(
        "--server",
        type=_server,
        default=_DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {_DEFAULT_SERVER})",
    )
    parser.add_argument(
        "--public-url",
        type=_server,
        metavar="URL",
        help="where people open the server's pages, if elsewhere",
    )
    parser.add_argument("--nodes", type=_whole(1, _MAX_NODES), default=2, help="default 2")
    parser.add_argument(
        "--gpus", type=_whole(1, _MAX_GPUS_PER_NODE), default=8, help="GPUs per node, default 8"
    )
    parser.add_argument(
        "--steps", type=_whole(1, 10**9), help="number of the last step (default: endless)"
    )
    parser.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="how many times faster, default 1"
    )
    parser.add_argument(
        "--scenario",
        choices=sorted(LIBRARY),
        default=DEFAULT_SCENARIO,
        metavar="NAME",
        help=f"what is wrong with the run, see below; default {DEFAULT_SCENARIO}",
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same run; default 0")
    parser.add_argument("--run-id", metavar="ID", help="default: made from scenario and time")
    parser.add_argument("--project", default="demo", metavar="NAME", help="default demo")
    parser.add_argument(
        "--host-prefix", default="sim-node", metavar="NAME", help="names of nodes: NAME-0, ..."
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the token that the server asks for",
    )
    parser.add_argument(
        "--once-ready-file",
        type=Path,
        metavar="FILE",
        help="written when the first step starts: JSON with run_id, url and pid",
    )
    return parser


def _describe_scenarios() -> list[str]:
    return [f"  {item.name:<20} {item.title}" for item in LIBRARY.values()]


def _server(text: str) -> str:
    address = urllib.parse.urlsplit(text)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as {_DEFAULT_SERVER}")
    return text.rstrip("/")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return number

    return parse


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not _MIN_SPEED <= speed <= _MAX_SPEED:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from {_MIN_SPEED} to {_MAX_SPEED:.0f}"
        )
    return speed
