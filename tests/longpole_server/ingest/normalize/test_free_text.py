"""What people and models wrote: what is found in it, what is left, and what rules may be given."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import ConfigError
from longpole_server.ingest.normalize.free_text import (
    MAX_TEXT_CHARS,
    USUAL_RULES,
    FreeText,
    RedactionRule,
    choose_rules,
)
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed

_TAIL = "Ab3" * 20


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("mail ana.b+c@lab.example.org today", "mail [redacted email] today"),
        (f"OPENAI sk-proj-{_TAIL} ok", "OPENAI [redacted api_key] ok"),
        (f'{{\\"key\\":\\"hf_{_TAIL}\\"}}', '{\\"key\\":\\"[redacted api_key]\\"}'),
        (f"ghp_{_TAIL}", "[redacted api_key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted api_key]"),
        ("xoxb-123456789012-abcdef", "[redacted api_key]"),
        (f"lp_0123456789ab_{_TAIL[:43]}", "[redacted api_key]"),
        (f"eyJ{_TAIL}.eyJ{_TAIL}.{_TAIL}", "[redacted jwt]"),
        ("Bearer abcdefghijklmnop.q", "Bearer [redacted authorization]"),
        ("postgres://bob:hunter22@db/x", "postgres://[redacted url_login]@db/x"),
        ("MY_ACCESS-TOKEN: abcdefghijk", "MY_ACCESS-TOKEN: [redacted assignment]"),
        ("clientSecret=abcdefghijk&x=1", "clientSecret=[redacted assignment]&x=1"),
        ("password = correct-horse", "password = [redacted assignment]"),
        ('{"api_key": "0123456789abcdef"}', '{"api_key": "[redacted assignment]"}'),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY----- b",
            "a [redacted private_key] b",
        ),
        ("-----BEGIN PRIVATE KEY-----\\nMIIB", "[redacted private_key]"),
    ],
    ids=range(16),
)  # fmt: skip
def test_secrets_and_addresses_are_replaced(text: str, left: str) -> None:
    free_text = FreeText(keep=True)

    assert free_text.fit("gen_ai.prompt", text) == left
    assert free_text.num_redacted == 1


@pytest.mark.parametrize(
    "text",
    [
        "Natalia sold 48/2 = 24 clips; 48+24 = 72. #### 72",
        "max_tokens: 4096, top_p=0.9, the key: understanding, keyboard=layout_of_mine",
        "def f(a): return a @ b  # x@y",
        "https://example.org/path?a=1#b and 2024-01-01T00:00:00Z",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    ],
)
def test_usual_text_is_left_alone(text: str) -> None:
    assert FreeText(keep=True).fit("gen_ai.completion", text) == text


def test_other_attributes_are_not_looked_at() -> None:
    free_text = FreeText(keep=True)
    assert free_text.fit("owner", "ana@lab.example.org") == "ana@lab.example.org"
    assert free_text.num_redacted == 0


def test_a_secret_at_the_cut_is_found_whole() -> None:
    for before in (MAX_TEXT_CHARS - 10, 2 * MAX_TEXT_CHARS - 10):
        text = "x " * (before // 2) + f"hf_{_TAIL}" + " y" * MAX_TEXT_CHARS
        kept = FreeText(keep=True).fit("prompt", text)
        assert "hf_" not in kept
        assert len(kept) <= MAX_TEXT_CHARS + 1
        assert kept.endswith("…")
    # Much that is replaced brings what stood behind it before the cut.
    text = f"hf_{'A' * 100} " * 79 + f"hf_{_TAIL}"
    assert "hf_" not in FreeText(keep=True).fit("prompt", text)


def test_messages_of_errors_are_cleaned_although_no_text_is_kept() -> None:
    span = otlp.span("chat", 1, 3, {"gen_ai.prompt": "a@b.org"})
    span.status.message = f"401 for sk-{_TAIL}"
    span.events.add(
        name="exception", attributes=otlp.attributes({"exception.message": "to a@b.org"})
    )
    feed = Feed()

    (raw,) = feed.traces(otlp.resource(), [span], at_s=3).raw_spans

    assert raw.attributes == {}
    assert raw.status_message == "401 for [redacted api_key]"
    assert raw.events[0][2] == {"exception.message": "to [redacted email]"}
    assert feed.normalizer.stats.num_redacted == 2


@given(st.text(alphabet="ab@.-_:/= \n\"'\\eyJsk19", max_size=400))
def test_any_text_is_cleaned_once_and_for_all(text: str) -> None:
    cleaned = FreeText(keep=True).clean(text)
    assert FreeText(keep=True).clean(cleaned).count("[redacted email]") == cleaned.count(
        "[redacted email]"
    )


def test_rules_are_chosen_by_name_and_added_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("# ours\n\nticket TICK-\\d+\nname (?i)by (?P<secret>\\w+)\n")

    rules = choose_rules("email, jwt", file)

    assert [rule.name for rule in rules] == ["jwt", "email", "ticket", "name"]
    cleaned = FreeText(keep=True, rules=rules).clean("TICK-7 by Ana, password=12345678")
    assert cleaned == "[redacted ticket] by [redacted name], password=12345678"
    assert [rule.name for rule in choose_rules("all", None)] == list(USUAL_RULES)
    assert choose_rules("none", None) == ()


@pytest.mark.parametrize(
    ("names", "content", "message"),
    [
        ("emails", "", "knows no rule 'emails'"),
        ("all", "Ticket", "line 1: not a rule"),
        ("all", "ticket", "line 1: not a rule"),
        ("all", "a b\nticket (", "line 2: not a regular expression"),
        ("all", "ticket x*", "matches nothing at all"),
        ("all", r"echo (a)\1", r"line 1: not a regular expression: invalid escape sequence: \1"),
        ("all", "ahead (?=a)b", "line 1: not a regular expression: invalid perl operator"),
        ("all", "huge " + r"\p{L}{900}" * 9, "line 1: not a regular expression"),
        ("all", "# words\n" * 10_000, "is larger than 65,536 bytes"),
    ],
    ids=range(9),
)
def test_rules_that_make_no_sense_are_refused(
    tmp_path: Path, names: str, content: str, message: str
) -> None:
    file = tmp_path / "rules"
    file.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(message)):
        choose_rules(names, file)
    with pytest.raises(ConfigError, match="cannot read"):
        choose_rules("all", tmp_path / "none")


def test_no_rule_takes_long_on_what_was_made_to_be_slow() -> None:
    """Patterns are bounded: each looks at a text in time that does not explode with its length."""
    free_text = FreeText(keep=True)
    for piece in ("a@", "eyJ", "a.", "://", "-----BEGIN ", "password", "sk-", "x" * 64, "bearer "):
        free_text.clean(piece * (MAX_TEXT_CHARS // len(piece)))
    assert isinstance(USUAL_RULES["email"], RedactionRule)


def test_no_text_makes_a_rule_of_somebody_s_own_slow(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("nested (?:(?:a+)+)+$\nmany (?:a?){40}(?:a){40}b\nwide .*.*.*=.*z\n")
    free_text = FreeText(keep=True, rules=choose_rules("none", file))

    # Python's engine would take longer than the universe is old.
    cleaned = free_text.clean("a" * 8_000 + "!")

    assert cleaned == "a" * 8_000 + "!"


def test_rules_of_somebody_s_own_read_every_script(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text(r"patient 病人[:：]\s?(?P<secret>\p{Han}+)", encoding="utf-8")
    rules = choose_rules("none", file)

    assert (
        FreeText(keep=True, rules=rules).clean("😀 病人：王小明, x")
        == "😀 病人：[redacted patient], x"
    )
    assert FreeText(keep=True, rules=rules).clean("\ud800 病人:王") == "? 病人:[redacted patient]"
