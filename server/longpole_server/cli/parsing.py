"""Arguments of the commands that are no server."""

import argparse
from typing import NoReturn

_REFUSED = 2


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, where argparse would show its usage as well."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(_REFUSED, f"{self.prog}: {message}; see {self.prog} --help\n")
