"""`ebbtide fault KIND --help`, and that what it says of each kind is what the documentation says."""

from __future__ import annotations

import pytest
from checkout import ROOT

from ebbtide.errors import ExitCode
from ebbtide.scenario.plain import STEP_KEYS
from ebbtide.scenario.steps.keys import SHOWN, keys_of
from ebbtide.scenario.steps.table import HEALED_BY, KINDS, StepKind
from harness.cli.main import main
from tools.pages import kinds

FAULTS = ROOT / "docs" / "faults.md"


def test_every_kind_has_a_meaning_and_every_key_a_word() -> None:
    assert set(SHOWN) == {*STEP_KEYS} - {"step"}


def test_the_documentation_says_the_same_of_each_kind() -> None:
    assert kinds.page(FAULTS.read_text("utf-8")) == FAULTS.read_text("utf-8"), "python -m tools.pages.catalogue"
    told = [line for line in FAULTS.read_text("utf-8").splitlines() if line.split(" ")[1:2] and line.startswith("| ")]
    start = told.index("| step | does | proof that it took effect | healed by |")
    rows = [f"| {kind} | {one.does} | {one.proof} | {one.ended_by} |" for kind, one in KINDS.items() if kind != "wait"]
    assert told[start + 1 : start + 1 + len(rows)] == rows
    assert {kind for kind, one in KINDS.items() if one.ended_by == HEALED_BY.get(kind)} == set(HEALED_BY)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_says_what_it_does_takes_and_proves(kind: StepKind, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", kind, "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    meaning, (needed, possible) = KINDS[kind], keys_of(kind)
    assert f"{kind}: {meaning.does}." in told
    assert meaning.proof in told
    options = {f"--{key.replace('_', '-')}" for key in (*needed, *possible) if key != "target"}
    assert {word.strip("[],") for word in told.split() if word.startswith(("--", "[--"))} == {
        "--help",
        "--cluster",
        *options,
    }


def test_an_option_of_another_kind_is_refused_with_this_kinds_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "kill", "broker(1)", "--groups", "x"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "did you mean" not in told
    assert "next:    ebbtide fault kill --help" in told


def test_values_that_are_not_toml_are_named_by_their_options_as_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "kill", "broker(1)", "--deadline-s", "soon", "--trigger", "isr = x"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    for option, typed, key in (("--deadline-s", "soon", "deadline_s"), ("--trigger", "isr = x", "trigger")):
        assert f"where:   {option}\n     got:     {typed!r}\n     allowed: {SHOWN[key]}\n" in told
    assert "next:    ebbtide fault kill --help" in told
