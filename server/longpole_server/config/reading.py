"""Reads options from command-line words and the environment.

The field `a_b` is the flag `--a-b` and the environment variable `LONGPOLE_A_B`; a secret may also
stand in a file named by `--a-b-file` or `LONGPOLE_A_B_FILE`. Flags win over the environment.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from longpole.options import HelpfulParser
from longpole_server.config.options import Config
from longpole_server.config.values import parse_flag
from longpole_server.errors import ConfigError

ConfigType = TypeVar("ConfigType", bound=Config)


def is_of_store(option: str) -> bool:
    """Tell whether an option says where the store is: all that commands on a store ask for."""
    return option == "data_dir" or option.startswith("clickhouse_")


def read_config(
    kind: type[ConfigType],
    command: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    takes: Callable[[str], bool] = lambda _: True,
) -> ConfigType:
    """Build a configuration from command-line words and the environment.

    Args:
        kind: The configuration to build.
        command: Name of the subcommand, for the usage line.
        words: The arguments after the subcommand.
        environ: The process environment.
        takes: Tells by its name whether the command has an option; others keep their defaults.

    Raises:
        ConfigError: A word, a variable or their combination makes no sense.
        SystemExit: `--help` was asked for, with status 0.
    """
    options = [option for option in dataclasses.fields(kind) if takes(option.name)]
    flags = vars(_build_parser(options, command).parse_args(list(words)))
    return _read(kind, options, flags, environ)


def read_config_and_word(
    kind: type[ConfigType],
    command: str,
    name: str,
    words: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[ConfigType, str]:
    """Build a configuration for a command on a store that takes one argument beside its options.

    Args:
        kind: The configuration to build.
        command: Name of the subcommand, for the usage line.
        name: Of the argument, in capitals.
        words: The arguments after the subcommand.
        environ: The process environment.

    Raises:
        ConfigError: The argument is missing, or something makes no sense.
        SystemExit: `--help` was asked for, with status 0.
    """
    options = [option for option in dataclasses.fields(kind) if is_of_store(option.name)]
    parser = _build_parser(options, command)
    parser.add_argument("word", metavar=name)
    flags = vars(parser.parse_args(list(words)))
    return _read(kind, options, flags, environ), str(flags["word"])


def _read(
    kind: type[ConfigType],
    options: Sequence["dataclasses.Field[Any]"],
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
) -> ConfigType:
    values: dict[str, Any] = {}
    for option in options:
        text, origin = _find_text(option, flags, environ)
        if text is not None:
            values[option.name] = _parse(option, text, origin)
    return kind(**values)


class _Parser(HelpfulParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"see {self.prog} --help")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _build_parser(
    options: Sequence["dataclasses.Field[Any]"], command: str
) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"longpole {command}",
        allow_abbrev=False,
        epilog="Every option --a-b is also the environment variable LONGPOLE_A_B; a secret itself "
        "may stand in it where the option names a file.",
    )
    for option in options:
        text = option.metadata["help"]
        if option.metadata["parse"] is parse_flag:
            parser.add_argument(_flag(option.name), action="store_const", const="yes", help=text)
        elif option.metadata["secret"]:
            parser.add_argument(
                _flag(option.name) + "-file", metavar="FILE", help=f"file that holds the {text}"
            )
        else:
            shown = "" if option.default in (None, ()) else f" (default {option.default})"
            parser.add_argument(_flag(option.name), help=text + shown)
    return parser


def _find_text(
    option: "dataclasses.Field[Any]", flags: Mapping[str, str | None], environ: Mapping[str, str]
) -> tuple[str | None, str]:
    variable = "LONGPOLE_" + option.name.upper()
    if option.metadata["secret"]:
        file = flags.get(option.name + "_file") or environ.get(variable + "_FILE")
        if file:
            return _read_secret(Path(file)), file
        return environ.get(variable) or None, variable
    text = flags.get(option.name)
    if text is not None:
        return text, _flag(option.name)
    return environ.get(variable), variable


def _read_secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the secret in {path}: {error}") from error
    if not secret:
        raise ConfigError(f"{path} is empty", hint="it must hold the secret")
    return secret


def _parse(option: "dataclasses.Field[Any]", text: str, origin: str) -> object:
    try:
        return option.metadata["parse"](text)
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error
