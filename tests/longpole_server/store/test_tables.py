from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import Records
from longpole_server.store.tables import RUN_GPUS, TABLES
from support.store_opening import OpenedStore


def list_columns(opened: OpenedStore, table: str) -> list[str]:
    answer = opened.client.query(
        "SELECT name FROM system.columns WHERE database = 'longpole' AND table = {table:String} "
        "ORDER BY position",
        {"table": table},
    )
    return [str(name) for name in answer["name"].to_pylist()]


def test_every_kind_of_record_has_a_table() -> None:
    assert set(TABLES) == {field.name for field in fields(Records)} - {"blocks"}


@pytest.mark.parametrize("field", [name for name in TABLES if name != "raw_spans"])
def test_columns_are_the_fields(opened: OpenedStore, field: str) -> None:
    (record_type,) = get_args(get_type_hints(Records)[field])
    names = [each.name for each in fields(record_type)]
    assert sorted(list_columns(opened, TABLES[field].name)) == sorted(names)


def test_columns_of_held_gpus_are_the_fields(opened: OpenedStore) -> None:
    names = [each.name for each in fields(RunGpu)]
    assert sorted(list_columns(opened, RUN_GPUS.name)) == sorted(names)
