"""`ebbtide spec rules` prints what really runs: its text, executed, passes the same vectors and walks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.spec import partition
from analysis.spec.builder import NotAssigned
from analysis.spec.effective_rules import events_of, text_of
from analysis.spec.variants import VARIANTS, protocol_for
from analysis.spec.vector_file import load
from analysis.spec.vectors import compare, releases_of
from ebbtide.errors import ExitCode
from harness.cli.main import main

VECTORS = load(Path(__file__).parent / "vectors" / "elr.jsonl")
RELEASES = sorted({release for vector in VECTORS for release in releases_of(vector)})


def execute_class(text: str, name: str) -> Any:
    """An instance of the class that the text defines; records and enums are those of the specification."""
    namespace: dict[str, Any] = {"__name__": "effective"}
    exec(compile(text, name, "exec"), namespace)
    made = namespace[type(VARIANTS[name]).__name__]()
    shared = {one: value for one, value in vars(partition).items() if isinstance(value, type)}
    namespace.update(shared, NotAssigned=NotAssigned)
    return made


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_printed_class_has_no_base_class_and_stands_alone(variant: str) -> None:
    made = execute_class(text_of(VARIANTS[variant]), variant)
    assert type(made).__bases__ == (object,)
    assert "super()" not in text_of(VARIANTS[variant])
    title, _, _ = text_of(VARIANTS[variant]).removeprefix('"""').partition('"""')
    assert max(map(len, title.splitlines())) < 80
    assert all(hasattr(made, event) for event in events_of(VARIANTS[variant]))


@pytest.mark.parametrize("release", RELEASES)
def test_the_printed_class_does_what_every_vector_says(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = protocol_for(release, {})
    made = execute_class(text_of(protocol), protocol.name)
    monkeypatch.setattr("analysis.spec.vectors.protocol_for", lambda *_: made)
    assert [difference for one in VECTORS if release in releases_of(one) for difference in compare(one, release)] == []


def test_a_rule_that_is_replaced_is_not_printed() -> None:
    text = text_of(VARIANTS["elr_43"])
    assert text.count("def remember(") == text.count("def may_complete(") == 1
    assert "# Since elr_41, instead of the rule since elr_40\n    def remember(" in text


def test_super_is_printed_as_the_rule_that_it_means() -> None:
    text = text_of(VARIANTS["elr_43"])
    assert "self.may_elect_last_known_in_elr_40(partition, live)" in text
    assert "def may_elect_last_known_in_elr_40(" in text
    assert "self.may_complete_in_strict_min_isr_38(isr, replicas," in text


def test_one_event_is_printed_with_all_that_it_calls_and_nothing_else() -> None:
    text = text_of(VARIANTS["elr_43"], "balance")
    made = execute_class(text, "elr_43")
    assert {"balance", "elect", "build"} <= set(dir(made))
    assert not {"fence", "append"} & set(dir(made))


def test_each_event_has_a_clause_and_none_is_of_a_later_kip() -> None:
    for name, protocol in VARIANTS.items():
        lines = text_of(protocol).splitlines()
        for event in events_of(protocol):
            at = next(at for at, line in enumerate(lines) if line.startswith(f"    def {event}("))
            assert re.fullmatch(r"    # .+ \((unchanged )?since .+\)", lines[at - 1]), (name, event)
    assert "KIP-966" not in text_of(VARIANTS["kraft"], "fence").split("def fence")[0].split("class Kraft")[1]


def test_the_command_prints_a_variant_or_what_a_release_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "rules", "elr-43"]) == ExitCode.AS_PREDICTED
    printed = capsys.readouterr().out
    assert printed == text_of(VARIANTS["elr_43"])
    assert main(["spec", "rules", "4.3.1"]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out == printed
    assert main(["spec", "rules", "elr-43", "fence"]) == ExitCode.AS_PREDICTED
    assert len(capsys.readouterr().out) < len(printed) / 2


def test_a_rule_that_events_call_is_printed_by_its_name() -> None:
    text = text_of(VARIANTS["elr_43"], "may_complete")
    assert "    def may_complete(" in text
    assert "    def fence(" not in text
    assert execute_class(text, "elr_43").may_complete(frozenset({2}), (2, 3), frozenset({2}), frozenset({1}), 1)
