"""An option reads the same in every verb that has it, and each kind of fault has a help of its own."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator

import click
import pytest
from command_tree import commands

from ebbtide.errors import ExitCode, UsageError
from ebbtide.scenario.model import ClusterSpec, TopicSpec
from ebbtide.scenario.plain_values import STEP_KEYS
from ebbtide.scenario.steps.table import KINDS, SHOWN, StepKind, keys_of
from ebbtide.scenario.validate_admin import validate_error_name
from harness.cli.main import main
from harness.cli.mistakes import with_whole_command
from harness.cli.option_values import table_of_words

MOST = 50
"""Options of the whole command, without those of the kinds of faults: a user cannot know more."""
METAVARS = {
    "--kafka": {"RELEASE", "RELEASES"},
    "--out": {"FILE.toml", "FILE.html", "DIR"},
    "--property": {"NAME", "FILE"},
}
"""Options whose values differ by the verb: how many there are or where they are, one or several, what is written."""
SAYS_WHAT_IT_DOES_HERE = {
    *("--budget", "--cluster", "--fail-on", "--html", "--kafka", "--keep-cluster", "--out", "--seed", "--times"),
    *("--assume", "--property", "--publish", "--variant"),
}
"""Options whose help has to say what the verb does with the value."""
ONLY_PROGRAMS = {
    ("analyze", "--many"),
    ("cluster up", "--foreground"),
    ("cluster up", "--started-by"),
    ("cluster up", "--tied"),
    ("run", "--no-judge"),
}


def options() -> Iterator[tuple[str, click.Option]]:
    """Every option of the command, with the words that name its verb."""
    for path, command in commands():
        if path[:2] != ("cluster", "fault") or len(path) == 2:
            yield from ((" ".join(path), one) for one in command.params if isinstance(one, click.Option))


def test_an_option_has_the_same_metavar_in_every_verb() -> None:
    found = defaultdict(set)
    for _, option in options():
        found[option.opts[-1]].add(option.metavar)
    assert {name: metavars for name, metavars in found.items() if len(metavars) > 1} == METAVARS


def test_an_option_has_the_same_help_in_every_verb() -> None:
    found = defaultdict(set)
    for _, option in options():
        found[option.opts[-1]].add(option.help)
    assert {name for name, helps in found.items() if len(helps) > 1} == SAYS_WHAT_IT_DOES_HERE


def test_the_text_of_help_itself_is_written_as_those_of_the_other_options() -> None:
    texts = {str(getattr(command.get_help_option(click.Context(command)), "help", "")) for _, command in commands()}
    assert texts == {"show this message and exit"}


def test_a_default_is_shown_in_one_form() -> None:
    assert [f"{verb} {one.opts}" for verb, one in options() if re.search(r"\(default (?!:)", one.help or "")] == []


def test_the_command_has_no_more_options_than_a_user_can_know() -> None:
    assert len({one.opts[-1] for _, one in options() if not one.hidden}) <= MOST


def test_options_that_only_programs_pass_are_not_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert {(verb, one.opts[-1]) for verb, one in options() if one.hidden} == ONLY_PROGRAMS
    for verb, option in ONLY_PROGRAMS:
        assert main([*verb.split(), "--help"]) == ExitCode.AS_PREDICTED
        assert option not in capsys.readouterr().out


# `ebbtide cluster fault KIND --help`.


def test_every_kind_has_a_meaning_and_every_key_a_word() -> None:
    assert set(SHOWN) == set(KINDS)
    assert {key for words in SHOWN.values() for key in words} == {*STEP_KEYS} - {"step"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_says_what_it_does_takes_and_proves(kind: StepKind, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "fault", kind, "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    meaning, (needed, possible) = KINDS[kind], keys_of(kind)
    assert f"{kind}: {meaning.does}." in told
    assert meaning.proof in told
    assert "(required)" not in told
    assert "Exit codes: 0 it took effect" in told
    options = {f"--{key.replace('_', '-')}" for key in (*needed, *possible) if key != "target"}
    assert {word.strip("[],.") for word in told.split() if word.startswith(("--", "[--"))} == {
        "--help",
        "--cluster",
        "--json",
        *options,
    }


def test_each_request_shows_a_refusal_that_kafka_has() -> None:
    shown = {kind: words["expect_error"] for kind, words in SHOWN.items() if "expect_error" in words}
    examples = {kind: re.findall(r"'([A-Z_]+)'", text)[0] for kind, text in shown.items()}
    for name in examples.values():
        assert list(validate_error_name(name, "expect_error")) == []
    assert (examples["add-voter"], examples["remove-voter"]) == ("DUPLICATE_VOTER", "VOTER_NOT_FOUND")
    assert examples["elect"] == "ELECTION_NOT_NEEDED"


def test_a_key_takes_each_value_that_it_has_in_a_scenario_file() -> None:
    words = ["session_timeout_s=2.5", "quorum=dynamic", "formed_on=3.9.1", "log.segment.bytes=1048576"]
    assert table_of_words(words, ClusterSpec, "broker_properties") == ClusterSpec(
        session_timeout_s=2.5, quorum="dynamic", formed_on="3.9.1", broker_properties={"log.segment.bytes": "1048576"}
    )
    assert table_of_words(["assignment=[[1, 2], [2, 3]]"], TopicSpec, "config").assignment == ((1, 2), (2, 3))


@pytest.mark.parametrize(
    ("argv", "next_", "whole"),
    [
        ("advise a.yaml", "--assume kafka=4.3.1    (if so)", "ebbtide advise a.yaml --assume kafka=4.3.1    (if so)"),
        ("advise 'a b' --down 1 --all", "--down 4", "ebbtide advise 'a b' --all --down 4"),
        ("advise --down=1 a", "--down 4", "ebbtide advise a --down 4"),
        ("run x --cluster c", "--keep-cluster", "ebbtide run x --cluster c --keep-cluster"),
        ("watch --runs r -- mark --down 1", "--runs s", "ebbtide watch --runs s -- mark --down 1"),
        ("run x", "ebbtide doctor", "ebbtide doctor"),
    ],
)
def test_an_option_to_type_next_is_a_whole_command(argv: str, next_: str, whole: str) -> None:
    error = with_whole_command(UsageError("wrong", next=next_), shlex.split(argv))
    assert error.next == whole
    assert whole in str(error)
