"""Lets a statement through only when the database's own parser says that it reads what it may.

Three steps, each closed by default:

1. The database's formatter rewrites the text as one statement without comments. Only the rewritten
   text goes on: text with a second statement in it does not get through.
2. Every node of the syntax tree must be of a known kind, every function and every table permitted.
3. The analyser resolves names: every table and function that it finds must be permitted as well.

`readonly = 1` of the connection stands behind all of this, but it is not enough: it lets
`SELECT file('/etc/passwd')` read and `INTO OUTFILE` write.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from longpole_server.errors import QueryRefusedError
from longpole_server.read.guard.functions import Function, Functions
from longpole_server.read.guard.syntax_tree import Node, parse_tree

ACCESS_DENIED = 497
NOT_IMPLEMENTED = 48
READONLY = 164

SYSTEM_TABLES = frozenset(
    {
        "aggregate_function_combinators", "columns", "contributors", "data_type_families",
        "databases", "formats", "functions", "keywords", "numbers", "numbers_mt", "one", "settings",
        "table_engines", "table_functions", "tables", "time_zones", "zeros",
    }
)  # fmt: skip
# Of the system's tables: where on the machine things lie is for those who run it.
_PLACES = frozenset({"data_path", "data_paths", "metadata_path"})
_SCHEMA_TABLES = frozenset({"columns", "schemata", "tables"})
_SCHEMA_DATABASES = frozenset({"information_schema", "INFORMATION_SCHEMA"})
TABLE_FUNCTIONS = frozenset(
    {
        "generateSeries", "generate_series", "numbers", "numbers_mt", "SQLStandardValues", "values",
        "view", "zeros", "zeros_mt",
    }
)  # fmt: skip

_KINDS = frozenset(
    {
        "ArrayJoin", "Asterisk", "ColumnsExceptTransformer", "ColumnsListMatcher",
        "ColumnsRegexpMatcher", "ColumnsReplaceTransformer",
        "ColumnsReplaceTransformer::Replacement", "ColumnsTransformerList", "ExpressionList",
        "Function", "Identifier", "InterpolateElement", "Literal", "OrderByElement",
        "QualifiedAsterisk", "QualifiedColumnsListMatcher", "QualifiedColumnsRegexpMatcher",
        "SampleRatio", "SelectIntersectExceptQuery", "SelectQuery", "SelectWithUnionQuery",
        "Subquery", "TableExpression", "TableIdentifier", "TableJoin", "TablesInSelectQuery",
        "TablesInSelectQueryElement", "WindowDefinition", "WindowListElement", "WithElement",
    }
)  # fmt: skip
_ROOTS = frozenset({"SelectWithUnionQuery", "DescribeQuery"})
_MEMBERSHIP = re.compile(r"(global)?(not)?(null)?in(ignoreset)?", re.IGNORECASE)

_NAME = r"(?:\w+|`[^`\\]+`)"
# Statements with expressions that the syntax tree does not show: only these plain forms.
_SHOW = re.compile(
    rf"SHOW (?:DATABASES|TABLES(?: FROM (?P<database>{_NAME}))?)(?: (?:NOT )?I?LIKE '[^'\\]*')?"
)
_ABOUT_TABLE = re.compile(rf"(?:SHOW CREATE TABLE|EXISTS TABLE) (?P<table>{_NAME}(?:\.{_NAME})?)")
_FORMAT = re.compile(r"(?P<statement>.*) FORMAT (?P<format>\w+)", re.DOTALL)
_ODD_NAME = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|``)*`|(?P<odd>`)", re.DOTALL)
_TREE_TABLE = re.compile(r"TABLE id: \d+, .*?table_name: ([^,]+)")
_TREE_TABLE_FUNCTION = re.compile(r"TABLE_FUNCTION id: \d+, .*?table_function_name: ([^,]+)")
_TREE_COLUMN = re.compile(r"COLUMN id: \d+, column_name: ([^,]+)")
_TREE_FUNCTION = re.compile(r"FUNCTION id: \d+, function_name: ([^,]+)")


class Queries(Protocol):
    """What the guard needs of a connection: a read-only one, in our database."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run a query with bound parameters."""
        ...

    def query_bytes(
        self, sql: str, parameters: Mapping[str, object] | None = None, form: str | None = None
    ) -> bytes:
        """Run a query and return its answer in a format of the database."""
        ...


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A statement that may run.

    Attributes:
        sql: As the database wrote it, without `FORMAT`.
        form: The format it asked for, None without one.
        is_select: Whether it is a `SELECT`.
    """

    sql: str
    form: str | None
    is_select: bool


class Guard:
    """Checks statements against one database.

    Args:
        database: The one whose tables may all be read.
        functions: What that database's program can compute.
    """

    def __init__(self, database: str, functions: Functions) -> None:
        self._database = database
        self._functions = functions

    def check(
        self, client: Queries, sql: str, parameters: Mapping[str, object] | None = None
    ) -> CheckedQuery:
        """Return the statement as it may run.

        Args:
            client: Its current database must be the guard's.
            sql: What somebody sent.
            parameters: Values of its `{name:Type}` placeholders.

        Raises:
            QueryRefusedError: It does more than read what it may.
            StoreError: It makes no sense to the database.
        """
        rewritten = _rewrite(client, sql)
        match = _FORMAT.fullmatch(rewritten)
        statement, form = (match["statement"], match["format"]) if match else (rewritten, None)
        if self._is_plain_show(statement):
            return CheckedQuery(statement, form, is_select=False)
        bound = bind(statement, parameters)
        root = self._check_syntax(client, statement, bound)
        is_select = root.kind == "SelectWithUnionQuery"
        if is_select:
            self._check_names(client, statement, bound)
        return CheckedQuery(statement, form, is_select)

    def _is_plain_show(self, statement: str) -> bool:
        if match := _SHOW.fullmatch(statement):
            database = _unquote(match["database"] or self._database)
            if database not in {self._database, "system", *_SCHEMA_DATABASES}:
                raise _deny(f"database {database}")
            return True
        if match := _ABOUT_TABLE.fullmatch(statement):
            self._check_table(".".join(_unquote(part) for part in match["table"].split(".")))
            return True
        return False

    def _check_syntax(self, client: Queries, sql: str, bound: Mapping[str, object] | None) -> Node:
        answer = client.query_bytes(f"EXPLAIN AST {sql}", bound, None)
        try:
            root = parse_tree(answer.decode("utf-8", "replace").splitlines())
        except ValueError as error:
            raise QueryRefusedError(f"The query has odd names in it: {error}.", 62) from error
        if root.kind not in _ROOTS:
            raise QueryRefusedError(
                f"Only SELECT, SHOW, DESCRIBE and EXISTS are answered here, not {root.kind}.",
                READONLY,
                hint="This door is for reading.",
            )
        if len(root.children) != 1:
            raise QueryRefusedError("Neither SETTINGS nor INTO OUTFILE is allowed here.", READONLY)
        for node in root.walk():
            if node is not root:
                self._check_node(node)
        return root

    def _check_node(self, node: Node) -> None:
        if node.kind == "Set":
            raise QueryRefusedError("Settings cannot be changed here.", READONLY)
        if node.kind not in _KINDS:
            raise QueryRefusedError(f"{node.kind} is not allowed here.", NOT_IMPLEMENTED)
        if node.kind == "TableIdentifier":
            self._check_table(node.label)
        elif node.kind == "Identifier":
            self._check_identifier(node.label)
        elif node.kind == "Function" and _MEMBERSHIP.fullmatch(node.label):
            self._check_membership(node)
        elif node.kind == "TableExpression":
            for child in node.children:
                if child.kind == "Function" and child.label not in TABLE_FUNCTIONS:
                    raise _deny(f"table function {child.label}")
        elif node.kind == "Function" and not self._may_be_called(node.label):
            raise _deny(f"function {node.label}")

    def _may_be_called(self, name: str) -> bool:
        # A table function's own place was checked with the table expression above it; called like
        # an ordinary function none of these exists.
        return name in TABLE_FUNCTIONS or self._functions.permits(name)

    def _check_identifier(self, name: str) -> None:
        """A function may be passed by its bare name: `arrayMap(file, ...)`."""
        if self._functions.knows(name) and not self._functions.permits(name):
            raise _deny(f"function {name}")

    def _check_membership(self, node: Node) -> None:
        """`x IN name` reads the table of that name."""
        for argument in node.children[0].children[1:] if node.children else ():
            if argument.kind == "Identifier":
                self._check_table(argument.label)

    def _check_table(self, name: str) -> None:
        database, dot, table = name.partition(".")
        if not dot or database == self._database:
            return
        if database == "system" and table in SYSTEM_TABLES:
            return
        if database in _SCHEMA_DATABASES and table.lower() in _SCHEMA_TABLES:
            return
        raise _deny(f"table {name}")

    def _check_names(self, client: Queries, sql: str, bound: Mapping[str, object] | None) -> None:
        answer = client.query_bytes(f"EXPLAIN QUERY TREE {sql}", bound, None)
        for line in answer.decode("utf-8", "replace").splitlines():
            text = line.strip()
            if match := _TREE_TABLE.match(text):
                if "." not in match[1]:
                    raise _deny(f"table {match[1]}")
                self._check_table(match[1])
            elif match := _TREE_TABLE_FUNCTION.match(text):
                if match[1] not in TABLE_FUNCTIONS:
                    raise _deny(f"table function {match[1]}")
            elif (match := _TREE_COLUMN.match(text)) and match[1] in _PLACES:
                raise _deny(f"column {match[1]}", "Name the columns that are wanted instead of *.")
            elif (match := _TREE_FUNCTION.match(text)) and not self._functions.permits_resolved(
                match[1]
            ):
                raise _deny(f"function {match[1]}")


def load_functions(client: Queries) -> Functions:
    """Read which functions a database has.

    Raises:
        StoreError: It is too old to say what they do, or failed.
    """
    rows: Sequence[Mapping[str, object]] = client.query(
        "SELECT name, alias_to, categories, case_insensitive, is_aggregate,"
        " toString(origin) AS origin FROM system.functions"
    ).to_pylist()
    return Functions(
        Function(
            name=str(row["name"]),
            alias_to=str(row["alias_to"]),
            categories=str(row["categories"]),
            case_insensitive=bool(row["case_insensitive"]),
            is_aggregate=bool(row["is_aggregate"]),
            is_builtin=row["origin"] == "System",
        )
        for row in rows
    )


def bind(sql: str, parameters: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return the parameters that a statement has placeholders for, None without any."""
    return {
        name: value for name, value in (parameters or {}).items() if f"{{{name}:" in sql
    } or None


def _rewrite(client: Queries, sql: str) -> str:
    rewritten = client.query("SELECT formatQuerySingleLine({sql:String}) AS sql", {"sql": sql})
    statement = str(rewritten.column(0)[0].as_py())
    if any(match["odd"] for match in _ODD_NAME.finditer(statement)):
        raise QueryRefusedError("The query has odd names in it.", 62)
    return statement


def _unquote(name: str) -> str:
    return name.strip("`")


def _deny(what: str, hint: str = "") -> QueryRefusedError:
    return QueryRefusedError(
        f"Not enough privileges: {what} is not open to queries.", ACCESS_DENIED, hint
    )
