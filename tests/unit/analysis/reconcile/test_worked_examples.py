"""The example of each rule breaks the rule, and the rule finds in it what the example says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
from worked_examples import Example, MadeRule, example_of, record_of, shows

from analysis.judge.rules.clause import check_all
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from analysis.judging.one_record import judged_record
from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record


def make(name: str, example: Example, folder: Path) -> Record:
    """Make the record of an example; an error says of which."""
    try:
        return record_of(example, folder)
    except (KeyError, ValueError) as error:
        error.add_note(f"in the example of {name}")
        raise


EXAMPLES = {one.name: example_of(one) for one in (*ANOMALIES, *CLAUSES)}
RECORDS = {name: partial(make, name, example) for name, example in EXAMPLES.items()}


@pytest.mark.spark
def test_each_rule_finds_what_its_example_says(found: Mapping[str, Reconciliation], made: Mapping[str, Record]) -> None:
    wrong: dict[str, object] = {}
    for kind in ANOMALIES:
        of_example = found[kind.name]
        items = [item for one in of_example.anomalies if one.kind == kind.name for item in one.examples]
        if not items or not shows(items[0], EXAMPLES[kind.name].gives):
            wrong[kind.name] = items or of_example.unknown.get(kind.name)
    for clause in CLAUSES:
        (checked,) = check_all(judged_record(made[clause.name], found[clause.name]), [clause])
        evidence, example = checked.found.evidence, EXAMPLES[clause.name]
        if checked.found.status != example.status or not shows(evidence[0], example.gives):
            wrong[clause.name] = msgspec.to_builtins(checked.found)
    assert wrong == {}


@pytest.mark.parametrize(
    ("example", "why"),
    [
        ("A story.\nbroker: at=5\ngives: leader=2", "the example of made has broker; allowed: sends, .*brokers, "),
        ("A story.\npartitions: leader=2", "the example of made does not say what the rule finds"),
        ("A story.\nbrokers: brokr=2\ngives: leader=2", "an example has brokr; the columns are .*broker, "),
    ],
    ids=["wrong-table", "no-finding", "wrong-column"],
)
def test_a_slip_in_an_example_says_what_is_allowed(tmp_path: Path, example: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make("ours", example_of(MadeRule(example=example)), tmp_path / "run")
