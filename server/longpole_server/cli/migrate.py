"""`longpole migrate`: brings a store up to date without serving it."""

import os
import sys
from collections.abc import Sequence

from longpole_server.cli.acting import act_as_owner_of_data
from longpole_server.cli.complaints import describe
from longpole_server.config import Config, is_of_store, read_config
from longpole_server.errors import ConfigError, ServerError
from longpole_server.store import open_store
from longpole_server.store.location import locate_store


def main(arguments: Sequence[str]) -> int:
    """Migrate and report. Exit status: 0 done, 1 failed, 2 bad arguments."""
    try:
        config = read_config(Config, "migrate", arguments, os.environ, is_of_store)
    except ConfigError as error:
        print(f"longpole migrate: {describe(error)}", file=sys.stderr)
        return 2
    except SystemExit as end:
        return int(end.code or 0)
    try:
        location = locate_store(config)
        if location.directory is not None:
            act_as_owner_of_data("migrate", config.data_dir)
        open_store(location).close()
    except ServerError as error:
        print(f"longpole migrate: {describe(error)}", file=sys.stderr)
        return 1
    print(f"The store in {location.place} is up to date.")
    return 0
