"""The check of the prose sees long sentences and replaced words, and nothing in code, links and tables' lengths."""

from __future__ import annotations

import pytest

from tools.prose import __main__ as program
from tools.prose import sources
from tools.prose.findings import MAX_WORDS, findings, read_words
from tools.prose.passages import markdown_passages

LONG = "The leader " + "and the follower " * 8 + "agree."


def findings_of(markdown: str) -> list[str]:
    words = read_words()
    return [str(one) for passage in markdown_passages("page.md", markdown) for one in findings(passage, words)]


def test_a_long_sentence_is_found_with_its_line() -> None:
    assert findings_of(f"# Title\n\nShort.\n{LONG}") == [
        f'page.md:4: 27 words in a sentence, at most {MAX_WORDS}: "The leader and the follower and ..."'
    ]


def test_a_replaced_word_is_found_with_its_line_and_what_to_say() -> None:
    assert findings_of("Two\nrecords are GONE.") == ['page.md:2: "GONE": say lost, missing, deleted']


@pytest.mark.parametrize(
    "markdown",
    [
        "It stops. " * 30,
        "Kafka 3.9.1 loses it. 4.3.1 does not. " * 5,
        "A record (also a small one.) `acks=1` is lost. " * 5,
        "It ends. pytest begins in lower case. " * 5,
        "```\n" + "word " * 40 + "\n```",
        "Use `" + "word " * 40 + "` here.",
        "See [this](" + "a/" * 40 + "gone.md).",
        "| a |\n|---|\n| " + "word " * 40 + "|",
        "\n".join("- a point of a list without a full stop" for _ in range(9)),
        "The step `mend-disk`, or mend-disk, and KIP-gone; it had gone on.",
    ],
)
def test_short_sentences_code_targets_of_links_and_long_cells_are_no_finding(markdown: str) -> None:
    assert findings_of(markdown) == []


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    assert len(findings_of("A setting, e.g. `acks`, " + "is read, i.e. Kafka " * 7 + "has it.")) == 1


def test_words_are_found_in_tables_headings_and_across_lines() -> None:
    assert len(findings_of("# Whom\n\n| head |\n|---|\n| told |\n\nin the\nplace of")) == 3


def test_a_planted_sentence_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "passages", lambda: markdown_passages("docs/page.md", f"{LONG} Whom?"))
    assert program.main([]) == 1
    assert "docs/page.md:1: 27 words in a sentence" in capsys.readouterr().out
    monkeypatch.setattr(program, "passages", lambda: markdown_passages("docs/page.md", "A short sentence."))
    assert program.main([str(sources.ROOT / "docs")]) == 0


def test_the_prose_is_found_wherever_users_read_it() -> None:
    paths = {one.path for one in sources.passages()}
    assert {
        "README.md",
        "CHANGELOG.md",
        "docs/architecture.md",
        "docs/decisions/ledger.md",
        "ebbtide/scenarios/elections-and-settings/healthy.toml",
        "harness/cli/main.py",
        "harness/cli/run.py",
    } <= paths


def test_a_scenarios_description_and_an_options_help_have_their_lines() -> None:
    title = next(one for one in sources.scenario_passages() if one.path.endswith("/healthy.toml"))
    assert (sources.ROOT / title.path).read_text().splitlines()[title.line - 1] == f'title = "{title.text}"'
    help_text = next(one for one in sources.help_passages() if one.place == "ebbtide clean --forget")
    assert help_text.text in (sources.ROOT / help_text.path).read_text().splitlines()[help_text.line - 1]
