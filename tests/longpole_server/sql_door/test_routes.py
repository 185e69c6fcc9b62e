"""The door as tools see it: the real ClickHouse client, raw HTTP, what Grafana's driver sends."""
# pyright: reportUnknownMemberType=false

import base64
import gzip
import json
import struct
from collections.abc import Generator
from typing import Any

import clickhouse_connect
import httpx
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from longpole_server.read.free_queries import QueryLimits
from support.sql_doors import TOKEN, SqlDoor, served_door, served_queries


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[SqlDoor]:
    with served_door(tmp_path_factory.mktemp("store")) as door:
        yield door


@pytest.fixture
def http(door: SqlDoor) -> Generator[httpx.Client]:
    address = f"http://127.0.0.1:{door.port}/clickhouse"
    with httpx.Client(base_url=address, headers={"X-ClickHouse-Key": TOKEN}, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def connected(door: SqlDoor) -> Generator[Any]:
    client = clickhouse_connect.get_client(
        host="127.0.0.1",
        port=door.port,
        proxy_path="/clickhouse",
        username="anybody",
        password=TOKEN,
        database="longpole",
    )
    yield client
    client.close()


def test_the_real_client_reads_rows_frames_and_arrow(connected: Any):
    sql = "SELECT run_id, step, start_ns, group_id FROM trajectories ORDER BY trajectory_id"
    rows = connected.query(sql).result_rows
    assert len(rows) == 8
    assert rows[0][:2] == ("run", 0)
    assert rows[0][3] is None
    assert len(connected.query_df(sql)) == 8
    assert connected.query_arrow(sql).num_rows == 8
    assert connected.ping()


def test_the_real_client_binds_parameters(connected: Any):
    text = "it's \\ \n'; DROP TABLE steps"
    answer = connected.query(
        "SELECT {text:String}, {list:Array(String)}, {number:Int64}",
        parameters={"text": text, "list": ["a'b", "c"], "number": -3},
    )
    assert answer.result_rows == [(text, ["a'b", "c"], -3)]


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT * FROM missing", 60),
        ("SELECT missing FROM steps", 47),
        ("SELECT FROM WHERE", 62),
        ("SELECT file('/etc/hostname')", 497),
        ("DROP TABLE steps", 164),
    ],
)
def test_errors_have_the_databases_numbers(connected: Any, sql: str, number: int):
    with pytest.raises(DatabaseError, match=f"code: {number}|Code: {number}"):
        connected.command(sql)


def test_a_query_that_takes_too_long_has_the_databases_number(door: SqlDoor):
    endless = "SELECT sum(number) FROM numbers(1000000000000)"
    with served_queries(door.store, QueryLimits(max_s=0.1)) as (_, port):
        address = f"http://127.0.0.1:{port}/clickhouse/"
        answer = httpx.post(
            address, content=endless, headers={"X-ClickHouse-Key": TOKEN}, timeout=60.0
        )
    assert answer.headers["X-ClickHouse-Exception-Code"] == "159"
    assert "Code: 159" in answer.text


def test_the_real_client_cannot_write(connected: Any):
    with pytest.raises(DatabaseError):
        connected.insert("run_ends", [["r", 1]], column_names=["run_id", "attempt"])
    with pytest.raises(DatabaseError):
        connected.command("INSERT INTO run_ends (run_id) VALUES ('x')")
    assert connected.command("SELECT count() FROM run_ends") == 0


@pytest.mark.parametrize("form", ["JSON", "JSONCompact", "JSONEachRow"])
def test_json_by_parameter_header_and_clause(http: httpx.Client, form: str):
    for answer in (
        http.post("/", content="SELECT 1 AS x", params={"default_format": form}),
        http.post("/", content="SELECT 1 AS x", headers={"X-ClickHouse-Format": form}),
        http.get("/", params={"query": f"SELECT 1 AS x FORMAT {form}"}),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.headers["X-ClickHouse-Format"] == form
        document = json.loads(answer.content)
        assert document in (
            {"x": 1},
            {**document, "data": [{"x": 1}]},
            {**document, "data": [[1]]},
        )


def test_tab_separated_without_a_format(http: httpx.Client):
    answer = http.post("/?query_id=mine&session_id=s", content="SELECT 1, 'a'")
    assert answer.text == "1\ta\n"
    assert answer.headers["X-ClickHouse-Query-Id"] == "mine"
    assert answer.headers["X-ClickHouse-Timezone"]


def test_a_query_may_be_split_over_address_and_body(http: httpx.Client):
    assert http.post("/", params={"query": "SELECT 1,"}, content="2").text == "1\t2\n"


@pytest.mark.parametrize("form", ["RowBinary", "RowBinaryWithNamesAndTypes", "Native", "Parquet"])
def test_binary_formats(http: httpx.Client, form: str):
    answer = http.post("/", content=f"SELECT toUInt32(7) AS x FORMAT {form}")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert struct.pack("<I", 7) in answer.content


def test_gzip_when_asked_for(http: httpx.Client):
    with http.stream(
        "POST",
        "/?enable_http_compression=1",
        content="SELECT repeat('x', 100000)",
        headers={"Accept-Encoding": "gzip"},
    ) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        body = b"".join(answer.iter_raw())
    assert len(body) < 1_000
    assert gzip.decompress(body) == b"x" * 100_000 + b"\n"


def test_what_grafanas_driver_sends_first(http: httpx.Client):
    """The greeting is read in the newest form of Native, what follows as revision 0."""
    answer = http.post(
        "/?client_protocol_version=54485&default_format=Native&database=default",
        content="SELECT displayName(), version(), revision(), timezone()",
    )
    body = answer.content
    assert body[:9] == b"\x01\x00\x02\xff\xff\xff\xff\x00\x04"
    assert b"\x0arevision()\x06UInt32\x00\x00\x00\x00\x00" in body
    assert body.count(b"\x06String\x00") == 3


def test_the_greeting_of_others_is_an_ordinary_query(http: httpx.Client):
    answer = http.post("/", content="SELECT displayName(), version(), revision(), timezone()")
    assert len(answer.text.split("\t")) == 4


def test_grafanas_row_limit_cuts(http: httpx.Client):
    assert http.post("/?limit=2", content="SELECT number FROM numbers(9)").text == "0\n1\n"
    assert http.post("/?limit=0", content="SELECT 1").text == "1\n"


@pytest.mark.parametrize(
    ("query", "status", "number"),
    [
        ("max_memory_usage=0", 403, 164),
        ("allow_ddl=1", 403, 164),
        ("database=system", 404, 81),
        ("compress=1", 501, 48),
        ("limit=x", 400, 36),
        ("param_a-b=1", 400, 36),
        ("default_format=Template", 400, 73),
    ],
)
def test_what_the_door_does_not_do(http: httpx.Client, query: str, status: int, number: int):
    answer = http.post(f"/?{query}", content="SELECT 1")
    assert answer.status_code == status
    assert answer.headers["X-ClickHouse-Exception-Code"] == str(number)
    assert answer.text.startswith(f"Code: {number}. DB::Exception: ")


def test_settings_of_the_transport_are_let_pass(http: httpx.Client):
    answer = http.post(
        "/?wait_end_of_query=1&send_progress_in_http_headers=1&max_execution_time=1&compress=0",
        content="SELECT 1",
    )
    assert answer.text == "1\n"


def test_bodies_that_are_no_query(http: httpx.Client):
    assert http.get("/").text == "Ok.\n"
    assert http.get("/ping").text == "Ok.\n"
    assert http.post("/", content=b"\xff").status_code == 400
    assert http.post("/", content=b" " * 600_000).status_code >= 400
    assert http.post("/", content=b"SELECT " + b"1," * 200_000).status_code == 400
    assert http.post("/", files={"a": b"1"}).status_code == 501
    assert http.post("/", content=b"x", headers={"Content-Encoding": "gzip"}).status_code == 501


@pytest.mark.parametrize(
    "headers",
    [
        {"X-ClickHouse-Key": TOKEN},
        {"X-ClickHouse-User": "u", "X-ClickHouse-Key": TOKEN},
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": "Basic " + base64.b64encode(f"u:{TOKEN}".encode()).decode()},
    ],
)
def test_the_token_is_taken_where_tools_put_it(door: SqlDoor, headers: dict[str, str]):
    address = f"http://127.0.0.1:{door.port}/clickhouse/"
    assert httpx.post(address, content="SELECT 1", headers=headers, timeout=60.0).text == "1\n"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-ClickHouse-Key": "wrong"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic !"},
        {"Authorization": "Basic " + base64.b64encode(b"u:").decode()},
        {"X-ClickHouse-User": TOKEN},
    ],
)
def test_nobody_else_gets_in(door: SqlDoor, headers: dict[str, str]):
    address = f"http://127.0.0.1:{door.port}/clickhouse/"
    answer = httpx.post(address, content="SELECT 1", headers=headers, timeout=60.0)
    assert answer.status_code == 403
    assert answer.headers["X-ClickHouse-Exception-Code"] == "516"
    assert "SELECT" not in answer.text


def test_a_password_in_the_address(door: SqlDoor):
    address = f"http://127.0.0.1:{door.port}/clickhouse/"
    query = {"query": "SELECT 1", "user": "u", "password": TOKEN}
    assert httpx.get(address, params=query, timeout=60.0).text == "1\n"
