"""`longpole access`: users and tokens of a server. A running one knows within a second."""

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import NoReturn

from longpole.options import HelpfulParser
from longpole_server.auth.entries import (
    Entries,
    TokenEntry,
    UserEntry,
    edit_entries,
    is_name,
    load_entries,
)
from longpole_server.auth.passwords import hash_password
from longpole_server.auth.tokens import hash_token, make_token
from longpole_server.cli.acting import act_as_owner
from longpole_server.cli.complaints import describe
from longpole_server.config import Config, read_config
from longpole_server.errors import ConfigError

_DAY_NS = 86_400 * 10**9
_USER_ROLES = ("viewer", "admin")
_TOKEN_ROLES = ("ingest", "viewer", "admin")


def main(arguments: Sequence[str]) -> int:
    """Show or change who may call. Exit status: 0 done, 2 bad arguments or file."""
    try:
        options = _make_parser().parse_args(list(arguments))
        file = _find_file(options, os.environ)
        # In a data directory a file may be root's by mistake, the store less likely.
        act_as_owner("access", file.parent / "store", file, file.parent)
        acts: Mapping[str, Callable[[argparse.Namespace, Path], None]] = {
            "list": _list,
            "add-user": _add_user,
            "remove-user": _remove_user,
            "create-token": _create_token,
            "revoke-token": _revoke_token,
        }
        acts[options.act](options, file)
    except ConfigError as error:
        print(f"longpole access: {describe(error)}", file=sys.stderr)
        return 2
    except SystemExit as end:
        return int(end.code or 0)
    return 0


class _Parser(HelpfulParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"see {self.prog} --help")


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="longpole access", description=__doc__, allow_abbrev=False)
    _add_places(parser, None)
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    acts.add_parser("list", help="users and tokens, without their secrets")
    user = acts.add_parser("add-user", help="add a person, or change one")
    user.add_argument("name")
    user.add_argument("--role", choices=_USER_ROLES, default="viewer")
    user.add_argument(
        "--password-file", type=Path, help="file that holds the password, - for standard input"
    )
    acts.add_parser("remove-user", help="remove a person").add_argument("name")
    token = acts.add_parser("create-token", help="make a program's token and print it, this once")
    token.add_argument("name", help="what it is for")
    token.add_argument("--role", choices=_TOKEN_ROLES, default="ingest")
    token.add_argument("--days", type=int, help="how long it is good; for ever without it")
    acts.add_parser("revoke-token", help="end a token").add_argument("id")
    for act in (user, token):
        act.add_argument(
            "--project", action="append", help="a project they are bound to, one or more times"
        )
    for act in acts.choices.values():
        # Before the act or behind it, as people write them.
        _add_places(act, argparse.SUPPRESS)
    return parser


def _add_places(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=default,
        help="of the server; the file is access.json there",
    )
    parser.add_argument(
        "--access-file",
        type=Path,
        default=default,
        help="the file itself, where it is elsewhere",
    )


def _find_file(options: argparse.Namespace, environ: Mapping[str, str]) -> Path:
    if options.access_file is not None:
        return options.access_file
    words = [] if options.data_dir is None else [f"--data-dir={options.data_dir}"]
    takes = frozenset({"data_dir", "access_file"}).__contains__
    return read_config(Config, "access", words, environ, takes).access_path


def _list(_: argparse.Namespace, file: Path) -> None:
    entries = load_entries(file)
    users, tokens = (_count(entries.users, "user"), _count(entries.tokens, "token"))
    print(f"{users} and {tokens} in {file}")
    for name, user in sorted(entries.users.items()):
        print(f"user   {name:24} {user.role:7} {_name_projects(user.projects)}")
    for token_id, token in sorted(entries.tokens.items()):
        ends = "for ever"
        if token.expires_ns is not None:
            until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(token.expires_ns / 1e9))
            ends = f"{'ended' if token.expires_ns <= time.time_ns() else 'until'} {until}"
        projects = _name_projects(token.projects)
        print(f"token  {token_id:24} {token.role:7} {projects}  {ends}  {token.name}")


def _count(entries: Sized, word: str) -> str:
    return f"{len(entries)} {word}{'' if len(entries) == 1 else 's'}"


def _add_user(options: argparse.Namespace, file: Path) -> None:
    _check_name(options.name)
    password = _read_password(options.password_file)
    try:
        hashed = hash_password(password)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    with edit_entries(file) as entries:
        changed = options.name in entries.users
        entries.users[options.name] = UserEntry(
            password=hashed, role=options.role, projects=options.project
        )
    print(f"{'changed' if changed else 'added'} {options.name} ({options.role}) in {file}")


def _remove_user(options: argparse.Namespace, file: Path) -> None:
    with edit_entries(file) as entries:
        if entries.users.pop(options.name, None) is None:
            raise ConfigError(f"there is no user {options.name!r} in {file}")
        _warn_when_empty(entries)
    print(f"removed {options.name}")


def _create_token(options: argparse.Namespace, file: Path) -> None:
    _check_name(options.name)
    if options.days is not None and options.days <= 0:
        raise ConfigError("--days is a positive number")
    token, token_id = make_token()
    now_ns = time.time_ns()
    with edit_entries(file) as entries:
        entries.tokens[token_id] = TokenEntry(
            name=options.name,
            sha256=hash_token(token),
            role=options.role,
            projects=options.project,
            created_ns=now_ns,
            expires_ns=None if options.days is None else now_ns + options.days * _DAY_NS,
        )
    print(token)
    print(f"token {token_id} ({options.role}) is in {file}; it is not shown again", file=sys.stderr)


def _revoke_token(options: argparse.Namespace, file: Path) -> None:
    with edit_entries(file) as entries:
        if entries.tokens.pop(options.id, None) is None:
            raise ConfigError(f"there is no token {options.id!r} in {file}")
        _warn_when_empty(entries)
    print(f"revoked {options.id}")


def _warn_when_empty(entries: Entries) -> None:
    if not entries.users and not entries.tokens:
        print(
            "note: nobody is left; a server without LONGPOLE_TOKEN lets nobody in",
            file=sys.stderr,
        )


def _read_password(file: Path | None) -> str:
    if file is None:
        try:
            password = getpass.getpass("Password: ")
            again = getpass.getpass("Once more: ")
        except EOFError as error:
            raise ConfigError(
                "nobody is here to type a password", hint="name its file by --password-file"
            ) from error
        if password != again:
            raise ConfigError("the two passwords differ")
        return password
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the password in {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the password in {file} is not UTF-8") from error
    return text.rstrip("\r\n")


def _check_name(name: str) -> None:
    if not is_name(name):
        raise ConfigError(f"{name[:40]!r} is no name: letters, digits and ._@+- are")


def _name_projects(projects: Sequence[str] | None) -> str:
    return "all projects" if projects is None else ", ".join(projects) or "no project"
