from typing import Any

import pytest

from longpole_server.config import Config, UpConfig
from longpole_server.errors import ConfigError

WEB: dict[str, Any] = {
    "role": "web",
    "clickhouse_url": "http://clickhouse:8123",
    "writer_url": "http://longpole-server:8470",
}


def refuse(settings: dict[str, Any], kind: type[Config] = Config) -> str:
    with pytest.raises(ConfigError) as caught:
        kind(**settings)
    return f"{caught.value.message} ({caught.value.hint})"


def test_a_server_may_only_show_what_another_one_writes():
    assert Config(**WEB).is_web
    assert Config(**WEB, token="t" * 40, session_key="k" * 40).is_web
    assert not Config(role="ingest", clickhouse_url="http://clickhouse:8123").is_web


def test_a_role_without_what_it_needs_says_what_to_set():
    assert "none of: all, ingest, web" in refuse({"role": "reader"})
    for role in ("web", "ingest"):
        said = refuse({"role": role})
        assert "--clickhouse-url" in said
        assert "--role all" in said
    assert "--writer-url" in refuse({**WEB, "writer_url": None})
    assert "--session-key-file" in refuse({**WEB, "token": "t" * 40})
    assert "--role web" in refuse({"writer_url": "http://longpole-server:8470"})
    assert "longpole server --role web" in refuse(WEB, UpConfig)


@pytest.mark.parametrize(
    "url", ["longpole-server:8470", "ftp://a", "http://", "http://user:secret@a", "http://a/x"]
)
def test_an_address_that_is_none_of_a_server_is_refused_and_not_repeated(url: str):
    said = refuse({**WEB, "writer_url": url})
    assert "no address of a server" in said
    assert "secret" not in said
