"""Logs of trainers, trackers and engines, read as streams of logged steps.

`read_steps` yields what a file logged, `import_facts` makes the logs of a run ready for diagnosis,
and `import_records` makes them ready for the store.
"""

from longpole_server.importers.facts import ImportedFacts, import_facts
from longpole_server.importers.logged import LoggedStep, LogSummary
from longpole_server.importers.reading import read_steps
from longpole_server.importers.records import import_records
from longpole_server.importers.run_ids import DEFAULT_PREFIX, check_run_id, make_run_id
from longpole_server.importers.sources import LogSource, pack, unpack

__all__ = [
    "DEFAULT_PREFIX",
    "ImportedFacts",
    "LogSource",
    "LogSummary",
    "LoggedStep",
    "check_run_id",
    "import_facts",
    "import_records",
    "make_run_id",
    "pack",
    "read_steps",
    "unpack",
]
