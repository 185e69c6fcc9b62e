"""The gate before the database: what gets through, what does not, and nothing by accident."""

import socket
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longpole_server.errors import QueryRefusedError, StoreError
from longpole_server.read.free_queries import FreeQueries, FreeQuery, QueryLimits
from longpole_server.read.guard.guard import SYSTEM_TABLES, TABLE_FUNCTIONS, load_functions
from longpole_server.store import Client, Store
from support.sql_doors import opened_queries

SECRET = "what the file says"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Store, FreeQueries]]:
    with opened_queries(tmp_path_factory.mktemp("store"), QueryLimits(max_s=60.0)) as opened:
        yield opened


@pytest.fixture(scope="module")
def queries(opened: tuple[Store, FreeQueries]) -> FreeQueries:
    return opened[1]


@pytest.fixture(scope="module")
def client(opened: tuple[Store, FreeQueries]) -> Generator[Client]:
    client = opened[0].new_reader_client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "secret"
    file.write_text(SECRET)
    return file


# Their arguments have a syntax of their own.
TAKES_A_QUERY = {"viewExplain", "viewIfPermitted"}


def ask(queries: FreeQueries, sql: str, **parameters: str) -> str:
    return queries.answer(FreeQuery(sql, parameters)).body.decode()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT displayName(), version(), revision(), timezone()",
        "SELECT name, value, readonly FROM system.settings LIMIT 10000",
        "SELECT database, name, engine, create_table_query, total_rows FROM system.tables",
        "SELECT name FROM system.databases WHERE name NOT IN ('system')",
        "SELECT 1 AS check FORMAT Native",
        "SHOW DATABASES",
        'SHOW TABLES FROM "longpole"',
        "SHOW TABLES LIKE 'gpu%'",
        'DESC TABLE "longpole"."steps"',
        (
            "SELECT DISTINCT arrayJoin(ResourceAttributes.keys) as keys"
            ' FROM "longpole"."otel_traces" LIMIT 1000'
        ),
        (
            "SELECT name, is_aggregate, case_insensitive, alias_to, origin, description, syntax,"
            " arguments, returned_value, examples, categories FROM system.functions LIMIT 10000"
        ),
        "SELECT name, type, table FROM system.columns",
        "SELECT timezone()",
        "DESCRIBE (SELECT 1)",
        "SHOW CREATE TABLE steps",
        "EXISTS TABLE longpole.steps",
        "SELECT name, type, table FROM system.columns WHERE database IN ('longpole')",
        "SELECT table_name FROM information_schema.tables",
        (
            "SELECT toStartOfInterval(ts_ns, INTERVAL 10 second) AS time, avg(utilization_ratio)"
            " FROM gpu_samples WHERE time >= toDateTime(1) GROUP BY time ORDER BY time"
        ),
        (
            "WITH x AS (SELECT run_id FROM trajectories) SELECT count(), uniqExactIf(run_id, 1),"
            " quantilesTDigest(0.5, 0.9)(1.), sumMap(map('a', 1)) FROM x"
            " JOIN run_starts USING (run_id)"
        ),
        (
            "SELECT arrayMap(x -> x + 1, [1, 2]), config['x'], (1, 'a').2, * EXCEPT (run_id)"
            " FROM run_starts"
        ),
        (
            "SELECT CASE WHEN step > 1 THEN 'a' ELSE 'b' END, step BETWEEN 0 AND 2, step::String"
            " FROM trajectories"
        ),
        (
            "SELECT row_number() OVER (PARTITION BY run_id ORDER BY step),"
            " lagInFrame(step) OVER w FROM trajectories WINDOW w AS (ORDER BY step)"
        ),
        "SELECT grouping(run_id), count() FROM steps GROUP BY GROUPING SETS ((run_id), (step))",
        "SELECT 1 WHERE (1, 1) IN (SELECT 1, 1) AND EXISTS (SELECT 1) AND 1 = ANY (SELECT 1)",
        "SELECT * FROM numbers(3) UNION ALL SELECT 1 INTERSECT SELECT 1",
        "SELECT * FROM values('a Int8', 1, 2) AS v",
        "SELECT sum(a) FROM view(SELECT 1 AS a)",
        "SELECT max(step) FILTER (WHERE step > 1), count(DISTINCT run_id) FROM trajectories FINAL",
        "SELECT a, b FROM (SELECT 1 AS a) AS x LEFT JOIN (SELECT 1 AS a, 2 AS b) AS y USING (a)",
        "SELECT 1 AS `GPU (%)`, 'it''s; DROP TABLE steps -- \\\\' AS text",
        "SELECT COLUMNS('^ts'), untuple((1, 2)) FROM gpu_samples LIMIT 1 BY host",
        "SELECT 1 /* a comment */ -- and another\n;",
        "SELECT date '2020-01-01', extract(day FROM now()), trim(both ' ' FROM ' a '), -1, NOT 1",
        "SELECT ts_ns FROM gpu_samples ORDER BY ts_ns WITH FILL STEP 1 LIMIT 1",
        "SELECT ResourceAttributes['rl.run.id'] FROM otel_traces PREWHERE SpanName = 'rl.sample'",
    ],
)
def test_what_tools_ask_is_answered(queries: FreeQueries, sql: str):
    try:
        queries.answer(FreeQuery(sql))
    except StoreError as error:
        # The engine's own opinion of a query is not the guard's.
        assert "UNKNOWN" not in error.message, error.message
        raise


def test_every_table_of_ours_can_be_read_whole(queries: FreeQueries):
    tables = ask(queries, "SHOW TABLES").split()
    assert {"steps", "gpu_samples", "otel_traces"} <= set(tables)
    for table in tables:
        columns = ask(
            queries,
            "SELECT name FROM system.columns WHERE database = currentDatabase()"
            f" AND table = '{table}'",
        ).split()
        names = ", ".join(f"`{column}`" for column in columns)
        ask(queries, f"SELECT {names} FROM {table} LIMIT 1")


def test_every_system_table_that_is_open_exists(queries: FreeQueries):
    for table in SYSTEM_TABLES:
        ask(queries, f"SELECT 1 FROM system.{table} LIMIT 1")


def test_parameters_are_bound(queries: FreeQueries):
    text = "it's \\ 'DROP'"
    answer = ask(
        queries,
        "SELECT {text:String} = unhex({hex:String}), length({list:Array(String)}), {number:Int64}",
        text=text.replace("\\", "\\\\"),
        hex=text.encode().hex(),
        list="['a','b\\'c']",
        number="-5",
        unused="x",
    )
    assert answer == "1\t2\t-5\n"


def test_a_parameter_cannot_name_what_the_query_may_not(queries: FreeQueries):
    assert ask(queries, "SELECT count() FROM {table:Identifier}", table="run_starts") == "1\n"
    with pytest.raises((QueryRefusedError, StoreError)):
        ask(queries, "SELECT * FROM {table:Identifier}", table="system.processes")
    with pytest.raises((QueryRefusedError, StoreError)):
        ask(queries, "SELECT * FROM {db:Identifier}.processes", db="system")
    with pytest.raises((QueryRefusedError, StoreError)):
        ask(queries, "SELECT arrayMap({f:Identifier}, ['/etc/hostname'])", f="file")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO run_ends (run_id) SELECT 'x'",
        "INSERT INTO run_ends (run_id) VALUES ('x')",
        "INSERT INTO run_ends FROM INFILE '$secret' FORMAT CSV",
        "INSERT INTO FUNCTION file('$out') SELECT 1",
        "CREATE TABLE x (a Int8) ENGINE = Memory",
        "CREATE TEMPORARY TABLE x (a Int8)",
        "CREATE FUNCTION f AS x -> x",
        "CREATE VIEW v AS SELECT 1",
        "CREATE NAMED COLLECTION c AS a = 1",
        "ATTACH TABLE x",
        "DETACH TABLE run_ends",
        "DROP TABLE run_ends",
        "DROP DATABASE longpole",
        "RENAME TABLE run_ends TO x",
        "EXCHANGE TABLES run_ends AND run_starts",
        "ALTER TABLE run_ends DELETE WHERE 1",
        "ALTER TABLE run_ends FREEZE",
        "DELETE FROM run_ends WHERE 1",
        "UPDATE run_ends SET attempt = 1 WHERE 1",
        "TRUNCATE TABLE run_ends",
        "OPTIMIZE TABLE run_ends FINAL",
        "SET readonly = 0",
        "USE system",
        "SYSTEM FLUSH LOGS",
        "SYSTEM SHUTDOWN",
        "KILL QUERY WHERE 1",
        "BACKUP TABLE run_ends TO File('$out')",
        "RESTORE TABLE run_ends FROM File('$out')",
        "GRANT ALL ON *.* TO default",
        "CREATE USER x",
        "BEGIN TRANSACTION",
        "WATCH run_ends",
        "CHECK TABLE run_ends",
        "EXPLAIN SELECT file('$secret')",
        "EXPLAIN AST SELECT 1; SELECT file('$secret')",
        "SHOW PROCESSLIST",
        "SHOW GRANTS",
        "SHOW TABLES WHERE file('$secret') != ''",
        "SHOW TABLES FROM default",
        "SHOW CREATE TABLE system.processes",
        "SHOW CREATE USER default",
        "DESCRIBE TABLE file('$secret')",
        "DESCRIBE TABLE system.processes",
        "EXISTS TABLE default.x",
        "SELECT 1; SELECT 2",
        "SELECT 1; INSERT INTO run_ends (run_id) SELECT 'x'",
        "SELECT 1 PARALLEL WITH SELECT 2",
        "SELECT 1 INTO OUTFILE '$out'",
        "SELECT 1 INTO OUTFILE '$out' FORMAT TSV",
        "SELECT 1 SETTINGS max_threads = 1",
        (
            "SELECT 1 FROM steps SETTINGS"
            " additional_table_filters = {'steps': 'file('$secret') != '''}"
        ),
        "SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 0)",
        "SELECT 1 FORMAT Template",
        "SELECT file('$secret')",
        "SELECT FILE('$secret')",
        "SELECT `file`('$secret')",
        "SELECT arrayMap(file, ['$secret'])",
        "SELECT arrayMap(x -> file(x), ['$secret'])",
        "WITH x -> file(x) AS f SELECT f('$secret')",
        "WITH file AS f SELECT arrayMap(f, ['$secret'])",
        "SELECT * APPLY(file) FROM (SELECT '$secret' AS a)",
        "SELECT * APPLY(x -> file(x)) FROM (SELECT '$secret' AS a)",
        "SELECT COLUMNS('a') APPLY file FROM (SELECT '$secret' AS a)",
        "SELECT * REPLACE (file('$secret') AS a) FROM (SELECT 1 AS a)",
        "SELECT (SELECT file('$secret'))",
        "WITH (SELECT file('$secret')) AS x SELECT x",
        "WITH x AS (SELECT file('$secret')) SELECT * FROM x",
        "SELECT 1 ORDER BY file('$secret')",
        "SELECT count() GROUP BY file('$secret')",
        "SELECT 1 HAVING file('$secret') = ''",
        "SELECT 1 QUALIFY file('$secret') = ''",
        "SELECT 1 LIMIT length(file('$secret'))",
        "SELECT sum(1) OVER (PARTITION BY file('$secret'))",
        "SELECT sum(1) OVER w WINDOW w AS (ORDER BY file('$secret'))",
        "SELECT 1 FROM numbers(1) AS n JOIN numbers(1) AS m ON n.number = length(file('$secret'))",
        "SELECT x FROM numbers(1) ARRAY JOIN [file('$secret')] AS x",
        "SELECT number FROM numbers(length(file('$secret')))",
        "SELECT number FROM numbers(1) PREWHERE file('$secret') = ''",
        "SELECT number FROM numbers(9) ORDER BY number WITH FILL TO length(file('$secret'))",
        (
            "SELECT number FROM numbers(9) ORDER BY number WITH FILL"
            " INTERPOLATE (number AS length(file('$secret')))"
        ),
        "SELECT number FROM numbers(9) LIMIT 1 BY file('$secret')",
        "SELECT transform(1, [1], [file('$secret')], '')",
        "SELECT CASE WHEN file('$secret') = '' THEN 1 END",
        "SELECT '$secret' IN (SELECT file('$secret'))",
        "SELECT 1 IN file('$secret', 'LineAsString')",
        "SELECT * FROM file('$secret', 'LineAsString')",
        "SELECT * FROM FILE('$secret', 'LineAsString')",
        "SELECT * FROM '$secret'",
        "SELECT * FROM `$secret`",
        "SELECT * FROM default.`$secret`",
        "SELECT * FROM view(SELECT * FROM file('$secret', 'LineAsString'))",
        "SELECT * FROM remote('127.0.0.1', system.one)",
        "SELECT * FROM merge('system', '.*')",
        "SELECT * FROM loop(longpole, steps)",
        "SELECT * FROM python(x)",
        "SELECT * FROM Python(x)",
        "SELECT * FROM executable('id', 'TSV', 'a String')",
        "SELECT * FROM eval('SELECT 1')",
        "SELECT * FROM format(TSV, '1')",
        "SELECT * FROM viewIfPermitted(SELECT 1 ELSE null('a Int8'))",
        "SELECT * FROM viewExplain('EXPLAIN', '', (SELECT 1))",
        "SELECT * FROM (EXPLAIN SELECT 1)",
        "SELECT * FROM generateRandom('a Int8')",
        "SELECT * FROM system.processes",
        "SELECT * FROM system.query_log",
        "SELECT * FROM `system`.`processes`",
        "SELECT 1 IN system.processes",
        "SELECT (1, 1) NOT IN system.processes",
        "SELECT 1 GLOBAL IN system.processes",
        "SELECT in(1, system.processes)",
        "SELECT joinGet('system.processes', 'a', 1)",
        "SELECT dictGet('a', 'b', 1)",
        "SELECT hasColumnInTable('system', 'processes', 'query')",
        "SELECT sleep(1)",
        "SELECT sleepEachRow(1) FROM numbers(3)",
        "SELECT getServerPort('tcp_port')",
        "SELECT getMacro('x')",
        "SELECT getServerSetting('max_connections')",
        "SELECT filesystemAvailable()",
        "SELECT addressToLine(1)",
        "SELECT generateSerialID('x')",
        "SELECT aiGenerate('x')",
        "SELECT catboostEvaluate('$secret', 1)",
        "SELECT editDistance('a', 'b')",
        "SELECT levenshteinDistance('a', 'b')",
        "SELECT kolmogorovSmirnovTest('two-sided', 'exact')(number, number % 2) FROM numbers(9)",
        "SELECT kolmogorovSmirnovTestIf(number, number % 2, 1) FROM numbers(9)",
        "SELECT data_paths FROM system.tables",
        "SELECT metadata_path FROM system.tables",
        "SELECT * FROM system.tables",
        "SELECT COLUMNS('path') FROM system.databases",
        "SELECT initializeAggregation('no such aggregate', file('$secret'))",
        "SELECT `a\nFunction file (children 0)`",
        "SELECT 1 AS `a\n  Literal 1`, file('$secret')",
        "FROM file('$secret', 'LineAsString') SELECT *",
        "((SELECT 1) UNION ALL (SELECT file('$secret')))",
        "SELECT * FROM steps, file('$secret', 'LineAsString')",
        "SELECT * FROM (SELECT 1) AS a PASTE JOIN file('$secret', 'LineAsString') AS b",
        "SELECT DISTINCT ON (file('$secret')) 1",
        "SELECT number FROM numbers(3) ORDER BY 1 WITH FILL INTERPOLATE(number AS file('$secret'))",
        "SELECT number FROM numbers(3) LIMIT 1 OFFSET length(file('$secret'))",
        "SELECT arrayFold((a, x) -> file(x), ['$secret'], '')",
        "SELECT f\\u0069le('$secret')",
        "SELECT 1 # a comment\n, file('$secret')",
        "SELECT 1 INTO/**/OUTFILE/**/'$out'",
        "SELECT 1 INTO OUTFILE '$out' AND STDOUT FORMAT TSV",
        "SELECT 1 SETTINGS readonly = 0 FORMAT TSV",
        "SELECT t.* FROM system.tables AS t",
        "SELECT tuple(*) FROM system.databases",
        "SELECT count() FROM system.tables WHERE arrayExists(p -> p LIKE '/%', data_paths)",
        "SELECT 1 UNION DISTINCT SELECT query FROM system.processes",
        "SHOW COLUMNS FROM system.processes",
        "EXECUTE AS default SELECT 1",
    ],
)
def test_what_does_more_than_read_is_refused(
    queries: FreeQueries, client: Client, secret: Path, sql: str
):
    out = secret.with_name("out")
    sql = sql.replace("$secret", str(secret)).replace("$out", str(out))
    with pytest.raises((QueryRefusedError, StoreError)) as raised:
        queries.answer(FreeQuery(sql))
    assert SECRET not in raised.value.message
    assert not out.exists()
    assert count_run_ends(client) == 0


def test_no_table_function_but_the_harmless_is_open(queries: FreeQueries, client: Client):
    """Every one that the engine lists, with arguments that would work for most."""
    names = client.query("SELECT name FROM system.table_functions").column(0).to_pylist()
    assert len(names) > 80
    assert {str(name) for name in names} >= TABLE_FUNCTIONS
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.0)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    for name in names:
        if name in TABLE_FUNCTIONS or name in TAKES_A_QUERY:
            continue
        for arguments in (
            "",
            "'a'",
            f"'http://{address}/x', 'TSV', 'a String'",
            f"'{address}', d, t, 'u', 'p'",
        ):
            for sql in (f"SELECT * FROM {name}({arguments})", f"DESCRIBE {name}({arguments})"):
                with pytest.raises(QueryRefusedError) as raised:
                    queries.answer(FreeQuery(sql))
                assert raised.value.number == 497, sql
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()


def test_functions_that_reach_out_are_closed(client: Client):
    functions = load_functions(client)
    rows = client.query("SELECT name, categories FROM system.functions").to_pylist()
    open_names = {str(row["name"]) for row in rows if functions.permits(str(row["name"]))}
    assert len(open_names) > 1_000
    words = (
        "file", "sleep", "dictget", "server", "macro", "joinget", "disk", "shell", "zookeeper",
        "keeper", "certificate", "transaction", "setting", "serverport", "tcpport",
    )  # fmt: skip
    harmless = {"serverTimezone", "serverTimeZone"}
    suspects = {
        name for name in open_names - harmless if any(word in name.lower() for word in words)
    }
    assert not suspects
    closed = {
        "AI",
        "Dictionary",
        "Embedded Dictionary",
        "Introspection",
        "Machine Learning",
    }
    for row in rows:
        if row["categories"] in closed:
            assert not functions.permits(str(row["name"])), row


def count_run_ends(client: Client) -> int:
    return int(client.query("SELECT count() FROM run_ends").column(0)[0].as_py())


# Pieces that together make queries, most of them nonsense, some of them harmful.
_NAMES = st.sampled_from(
    ["file", "FILE", "sleep", "sum", "toString", "numbers", "url", "system.processes", "run_ends",
     "longpole.run_ends", "system.one", "default.x", "arrayMap", "x", "`file`", '"url"', "remote"]
)  # fmt: skip
_PIECES = st.one_of(
    _NAMES,
    st.sampled_from(
        ["SELECT", "FROM", "WHERE", "IN", "(", ")", ",", "1", "'$secret'", "*", "APPLY(", "->",
         "AS", "WITH", "UNION ALL", ";", "--", "/*", "*/", "INSERT INTO", "DROP TABLE", "SETTINGS",
         "readonly = 0", "FORMAT", "TSV", "INTO OUTFILE '$out'", "\n", "`", "'", "\\", "{x:String}",
         "JOIN", "USING", "GROUP BY", "DESCRIBE", "SHOW TABLES", "EXPLAIN AST", "[", "]", "::",
         "PARALLEL WITH", "$$", "SET", "GLOBAL", "NOT", "LIMIT 1", "ORDER BY", "VALUES", "NULL"]
    ),
)  # fmt: skip
_TEXTS = st.lists(_PIECES, min_size=1, max_size=14).map(" ".join)
_CALLS = st.builds("{}({})".format, _NAMES, st.sampled_from(["'$secret'", "x", "", "'$secret', 1"]))
_SELECTS = st.builds(
    "SELECT {} FROM {} WHERE {} IN ({})".format,
    st.one_of(_CALLS, _NAMES, st.just("* APPLY(file)"), st.just("1")),
    st.one_of(_CALLS, _NAMES, st.builds("(SELECT {} AS x)".format, _CALLS)),
    st.one_of(_CALLS, st.just("1")),
    st.one_of(_CALLS, _NAMES, st.builds("SELECT {}".format, _CALLS)),
)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.one_of(_TEXTS, _SELECTS, st.text(max_size=40)))
def test_no_text_reads_a_file_writes_or_stays(
    queries: FreeQueries, client: Client, secret: Path, text: str
):
    out = secret.with_name("out")
    sql = text.replace("$secret", str(secret)).replace("$out", str(out))
    try:
        body = queries.answer(FreeQuery(sql, {"x": "file"})).body
    except (QueryRefusedError, StoreError) as error:
        body = error.message.encode()
    assert SECRET.encode() not in body
    assert not out.exists()
    assert count_run_ends(client) == 0
    assert ask(queries, "SELECT 7") == "7\n"


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT * FROM {x:Identifier}", "system.processes"),
        ("SELECT * FROM system.{x:Identifier}", "processes"),
        ("SELECT {x:Identifier} FROM system.tables", "data_paths"),
        ("SELECT 1 IN {x:Identifier}", "system.processes"),
        ("SELECT {x:Identifier}('$secret')", "file"),
        ("SELECT arrayMap({x:Identifier}, ['$secret'])", "file"),
        ("DESCRIBE TABLE {x:Identifier}", "system.processes"),
        ("SHOW CREATE TABLE {x:Identifier}", "system.processes"),
        ("SELECT {x:Array(String)}[1]", "['a'] || [file('$secret')]"),
        ("SELECT {x:Int64}", "1, file('$secret')"),
    ],
)
def test_values_of_placeholders_open_nothing(
    queries: FreeQueries, secret: Path, sql: str, value: str
) -> None:
    with pytest.raises((QueryRefusedError, StoreError)) as caught:
        ask(queries, sql.replace("$secret", str(secret)), x=value.replace("$secret", str(secret)))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", ["DEFAULT", "ALIAS", "MATERIALIZED", "EPHEMERAL"])
def test_what_columns_of_values_are_made_of_is_not_computed(
    queries: FreeQueries, secret: Path, kind: str
) -> None:
    sql = f"SELECT b FROM values('a String, b String {kind} file(''{secret}'')', ('x'))"
    with pytest.raises((QueryRefusedError, StoreError)):
        ask(queries, sql)
