"""Options of a command that may also stand in the environment: `--a-b` is `LONGPOLE_A_B`."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

_REFUSED = 2
_ABSENT = object()


class HelpfulParser(argparse.ArgumentParser):
    """Shows its help, or fails: argparse is silent where the output takes nothing."""

    def print_help(self, file: Any = None) -> None:  # noqa: ANN401 - as argparse has it
        """Write the help to a file, or to standard output.

        Raises:
            OSError: It cannot be written.
        """
        print(self.format_help(), end="", file=file, flush=True)


class OptionParser(HelpfulParser):
    """Says what is wrong in one line, where argparse would show its usage as well."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(_REFUSED, f"{self.prog}: {message}; see {self.prog} --help\n")

    def parse(self, words: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
        """Return the values of all arguments; the command line wins over the environment.

        Args:
            words: The command line.
            environ: The process environment. An empty variable counts as none.

        Returns:
            The values, and as `origins` where the value of each option is, or would be, named:
            the flag or the variable, by the name of the value.

        Raises:
            SystemExit: With 2 when one makes no sense, with 0 after showing the help.
        """
        options = [
            action for action in self._actions if action.option_strings and action.nargs != 0
        ]
        values = argparse.Namespace(**{option.dest: _ABSENT for option in options})
        self.parse_args(list(words), values)
        origins = {option.dest: option.option_strings[-1] for option in options}
        for option in options:
            if getattr(values, option.dest) is not _ABSENT:
                continue
            variable = name_variable(origins[option.dest])
            text = environ.get(variable)
            if text:
                origins[option.dest] = variable
                setattr(values, option.dest, self._read(option, text, variable))
            else:
                setattr(values, option.dest, option.default)
        values.origins = origins
        return values

    def _read(self, option: argparse.Action, text: str, variable: str) -> object:
        try:
            value: object = self._get_value(option, text)
            self._check_value(option, value)
        except argparse.ArgumentError as error:
            self.error(f"{variable}: {error.message}")
        return value


def name_variable(flag: str) -> str:
    """Return the variable of an option: `LONGPOLE_A_B` of `--a-b`."""
    return "LONGPOLE_" + flag.lstrip("-").replace("-", "_").upper()
