"""`ebbtide cluster fault KIND --help`."""

from __future__ import annotations

import re

import pytest

from ebbtide.errors import ExitCode
from ebbtide.scenario.plain_values import STEP_KEYS
from ebbtide.scenario.steps.table import KINDS, SHOWN, StepKind, keys_of
from ebbtide.scenario.validate_admin import validate_error_name
from harness.cli.main import main


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
    options = {f"--{key.replace('_', '-')}" for key in (*needed, *possible) if key != "target"}
    assert {word.strip("[],") for word in told.split() if word.startswith(("--", "[--"))} == {
        "--help",
        "--cluster",
        "--json",
        *options,
    }


def test_an_option_of_another_kind_is_refused_with_this_kinds_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "fault", "kill", "broker(1)", "--groups", "x"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "did you mean" not in told
    assert "next:    ebbtide cluster fault kill --help" in told


def test_values_that_are_not_toml_are_named_by_their_options_as_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["cluster", "fault", "kill", "broker(1)", "--deadline-s", "soon", "--trigger", "isr = x"])
        == ExitCode.USAGE
    )
    told = capsys.readouterr().err
    for option, typed, key in (("--deadline-s", "soon", "deadline_s"), ("--trigger", "isr = x", "trigger")):
        assert f"where:   {option}\n     got:     {typed!r}\n     allowed: {SHOWN['kill'][key]}\n" in told
    assert "next:    ebbtide cluster fault kill --help" in told


def test_each_request_shows_a_refusal_that_kafka_has() -> None:
    shown = {kind: words["expect_error"] for kind, words in SHOWN.items() if "expect_error" in words}
    examples = {kind: re.findall(r"'([A-Z_]+)'", text)[0] for kind, text in shown.items()}
    for name in examples.values():
        assert list(validate_error_name(name, "expect_error")) == []
    assert (examples["add-voter"], examples["remove-voter"]) == ("DUPLICATE_VOTER", "VOTER_NOT_FOUND")
    assert examples["elect"] == "ELECTION_NOT_NEEDED"
