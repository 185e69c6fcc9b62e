"""The command `longpole`: finds subcommands by name, names the missing extra when one is absent.

Exit status: 0 done, 1 failed while working, 2 the request cannot be met, 130 interrupted.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from longpole._version import __version__
from longpole.output import leave_output, open_output


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: where it lives, which extra brings it, and its line of help."""

    module: str
    extra: str
    help: str


# Strings, not imports: the SDK must not import the programs.
COMMANDS: Mapping[str, Command] = {
    "up": Command("longpole_server.cli.up", "all", "server and local agent on this machine"),
    "server": Command("longpole_server.cli.server", "server", "the server alone"),
    "agent": Command("longpole_agent.cli", "agent", "the agent of this node"),
    "demo": Command("longpole_sim.cli", "agent", "a simulated training run"),
    "import": Command("longpole_server.cli.import_log", "analysis", "send a log to a server"),
    "diagnose": Command("longpole_server.cli.diagnose", "analysis", "what a log is waiting for"),
    "alerts": Command("longpole_server.cli.alerts", "server", "try channels and alert rules"),
    "export": Command(
        "longpole_server.cli.export", "server", "a run as Parquet, a step as a trace"
    ),
    "report": Command("longpole_server.cli.save_report", "server", "a run as one HTML file"),
    "doctor": Command("longpole_server.cli.doctor", "server", "what is wrong, and what to do"),
    "backup": Command("longpole_server.cli.backup", "server", "copy the embedded store"),
    "restore": Command("longpole_server.cli.restore", "server", "put such a copy back"),
    "access": Command("longpole_server.cli.access", "server", "users and tokens of a server"),
    "migrate": Command("longpole_server.cli.migrate", "server", "bring a store up to date"),
}

_INTERRUPTED = 130
_USAGE = "usage: longpole COMMAND [options]\n\ncommands:\n"


def main(arguments: Sequence[str] | None = None, commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run the command line and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    open_output()
    try:
        status = _choose(words, commands)
        # Here, where an output that takes nothing more can still be answered.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        leave_output()
        return 0
    except KeyboardInterrupt:
        leave_output()
        return _INTERRUPTED
    except OSError as error:
        leave_output()
        what = error.filename or "the output cannot be written"
        with contextlib.suppress(OSError):
            print(f"longpole: {what}: {error.strerror or error}", file=sys.stderr)
        return 1
    return status


def _choose(words: Sequence[str], commands: Mapping[str, Command]) -> int:
    if not words:
        print(_describe(commands))
        print("longpole: a command is missing; see longpole --help", file=sys.stderr)
        return 2
    if words[0] in {"-h", "--help", "help"}:
        print(_describe(commands))
        return 0
    if words[0] in {"version", "--version", "-V"}:
        print(f"longpole {__version__}")
        return 0
    command = commands.get(words[0])
    if command is None:
        print(f"longpole: no command {words[0]!r}; see longpole --help", file=sys.stderr)
        return 2
    return _run(words[0], command, words[1:])


def _describe(commands: Mapping[str, Command]) -> str:
    lines = [f"  {name:<10} {command.help}" for name, command in commands.items()]
    lines.append(f"  {'version':<10} the installed version")
    return _USAGE + "\n".join(lines)


def _run(name: str, command: Command, words: Sequence[str]) -> int:
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        print(
            f"longpole {name}: {error.name} is not installed; "
            f"install it with: pip install 'longpole[{command.extra}]'",
            file=sys.stderr,
        )
        return 2
    run = cast("Callable[[Sequence[str]], int]", module.main)
    return run(words)


if __name__ == "__main__":
    sys.exit(main())
