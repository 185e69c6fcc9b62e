"""A process that writes numbered batches into a store until it is killed.

Arguments: directory, number of the first batch. Prints each number once its batch is acknowledged.
"""

import itertools
import sys
from pathlib import Path

from longpole_server.store import StoreConfig, open_store
from support.store_records import make_batch

ROWS = 50


def main() -> None:
    store = open_store(StoreConfig(directory=Path(sys.argv[1])))
    for number in itertools.count(int(sys.argv[2])):
        store.writer.write(make_batch(number, rows=ROWS), f"batch-{number}")
        print(number, flush=True)


if __name__ == "__main__":
    main()
