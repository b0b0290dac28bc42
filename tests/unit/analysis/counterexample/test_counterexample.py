"""A counterexample's page says what the search found: each step, its messages, and the state after it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from analysis.counterexample.drawing import draw
from analysis.counterexample.messages import CONTROLLER, OUTSIDE, Moment, messages_of
from analysis.counterexample.model import DrawnCell, DrawnCounterexample, DrawnStep
from analysis.counterexample.page import render_counterexample
from analysis.report.pages import write_page
from analysis.spec.explore.properties import PROPERTIES, Property
from analysis.spec.explore.question import Answer, ask
from analysis.spec.explore.trace import Step, Trace
from analysis.spec.explore.wording import ACTIONS, actor_label, lines, partition_parts, sentence
from analysis.spec.model import words as w
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.words import DATA_BITS, Data, SharedState
from analysis.spec.variants import VARIANTS
from ebbtide.errors import ExitCode
from harness.cli.main import main

VARIANT = "elr_43"
BOUNDS = Bounds(admin=1, admin_kinds=("raise-min-isr",), power_losses=1)
CHECK = ["spec", "check", "--variant", "elr-43", "--bounds", "power-losses=1"]
LOSING = [*CHECK, "--bounds", "admin=1,admin-kinds=raise-min-isr"]


@pytest.fixture(scope="module")
def answer() -> Answer:
    return ask(VARIANT, BOUNDS, PROPERTIES["committed"])


@pytest.fixture(scope="module")
def trace(answer: Answer) -> Trace:
    assert answer.trace is not None
    return answer.trace


@pytest.fixture(scope="module")
def drawn(trace: Trace) -> DrawnCounterexample:
    return draw(trace, VARIANTS[VARIANT])


def labels(step: DrawnStep) -> list[str]:
    return [one.label for one in step.messages]


def cell_of(step: DrawnStep, broker: int) -> DrawnCell:
    """The cell of a broker; the controller's comes first if a request is on its way."""
    return step.cells[broker - 1 + (len(step.cells) - 3)]


def test_a_row_stands_for_each_step_and_one_for_the_beginning(drawn: DrawnCounterexample, trace: Trace) -> None:
    assert [row.number for row in drawn.steps] == list(range(len(trace.steps) + 1))
    for row, step in zip(drawn.steps[1:], trace.steps, strict=True):
        who, what = sentence(step, trace.orders.get(row.number - 1, step.brokers))
        assert (row.who, row.what) == (actor_label(who), what)
        assert row.state == tuple(partition_parts(step.shared, step.data, step.words))


def test_the_cells_show_the_roles_the_conditions_and_the_logs(drawn: DrawnCounterexample) -> None:
    before_the_raise = drawn.steps[6]
    assert [cell_of(before_the_raise, broker).text for broker in (1, 2, 3)] == ["leader", "ELR", "out of ISR"]
    assert [cell_of(before_the_raise, broker).condition for broker in (1, 2, 3)] == ["down", "fenced", "fenced"]
    empty = (("empty log", "empty"),)
    assert [cell_of(before_the_raise, broker).notes for broker in (1, 2, 3)] == [empty, (), empty]
    assert [(one.name, one.look) for one in cell_of(before_the_raise, 2).log] == [("a", "unflushed")]


def test_only_what_a_step_changed_has_a_frame(drawn: DrawnCounterexample) -> None:
    assert not any(cell.has_changed for cell in drawn.steps[0].cells)
    assert [cell_of(drawn.steps[6], broker).has_changed for broker in (1, 2, 3)] == [True, False, False]


def test_the_election_that_loses_is_the_last_message_and_the_lost_record_is_crossed_out(
    drawn: DrawnCounterexample,
) -> None:
    last = drawn.steps[-1]
    assert last.lost == "a"
    assert labels(last) == ["unfenced", "leads without a"]
    assert last.messages[-1].look == "guilty"
    assert [(one.name, one.look) for one in cell_of(last, 1).log] == [("a", "missing")]
    assert not any(row.lost for row in drawn.steps[:-1])


def test_an_arrow_goes_from_the_lane_of_its_sender_to_the_lane_of_its_receiver(drawn: DrawnCounterexample) -> None:
    places = {name: place for name, _, place in drawn.lanes}
    assert list(places) == ["outside", "controller", "broker 1", "broker 2", "broker 3"]
    sent = {one.label: (one.begin, one.end) for row in drawn.steps for one in row.messages}
    assert sent["record a, acks=all"] == (places["outside"], places["broker 1"])
    assert sent["fetched a"] == (places["broker 1"], places["broker 2"])
    assert sent["min.insync.replicas 3"] == (places["outside"], places["controller"])
    assert sent["register"] == (places["broker 1"], places["controller"])


def test_a_request_is_on_its_way_until_the_controller_decides() -> None:
    found = ask("elr_43", Bounds(brokers=4, admin=2, admin_kinds=("move",)), PROPERTIES["committed"]).trace
    assert found is not None
    shown = draw(found, VARIANTS["elr_43"]).steps
    asked = [row.number for row in shown if any(one.look == "in-flight" for one in row.messages)]
    waits = [row.number for row in shown if any(cell.look == "requests-held" for cell in row.cells)]
    decided = [row.number for row in shown if any(label.startswith("accepted, ISR ") for label in labels(row))]
    assert asked
    assert set(asked) <= set(waits)
    assert not set(decided) & set(waits)


@pytest.mark.parametrize("kind", ACTIONS)
def test_every_kind_of_step_has_a_message_within_the_lanes(kind: str) -> None:
    up = (w.REPLICA | w.IN_ISR | w.REGISTERED | w.UNFENCED | w.UP) << DATA_BITS
    words = {1: up | w.LEADER << DATA_BITS, 2: up, 3: up}
    step = Step(kind, 2, 1, (2, 3), SharedState(2, 2, True), Data(appended=1).pack(), words, 0)
    messages = messages_of(step, Moment(0, words), (3, 2))
    assert messages
    assert {lane for one in messages for lane in (one.sender, one.receiver)} <= {OUTSIDE, CONTROLLER, 1, 2, 3}
    assert all(one.label and "{" not in one.label for one in messages)


def test_a_new_leader_gets_a_message_of_its_own(trace: Trace) -> None:
    up = (w.REPLICA | w.REGISTERED | w.UNFENCED | w.UP) << DATA_BITS
    before = {1: up | w.LEADER << DATA_BITS, 2: up}
    after = {1: up, 2: up | w.LEADER << DATA_BITS}
    step = Step("fence", 1, 0, (), trace.shared, 0, after, 0)
    assert [(one.receiver, one.label) for one in messages_of(step, Moment(0, before), ())] == [
        (1, "fenced"),
        (2, "leads"),
    ]


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_a_counterexample_of_every_variant_can_be_drawn(name: str) -> None:
    answer = ask(name, Bounds(power_losses=2), PROPERTIES["committed"])
    assert answer.trace is not None
    page = render_counterexample(name, Bounds(power_losses=2), PROPERTIES["committed"], answer, answer.trace)
    assert page.count('<li class="row') == len(answer.trace.steps) + 1
    assert "KIP-966 tolerates min.insync.replicas - 1 replicas without their log at once." in page


def test_a_broken_check_of_a_state_is_marked_at_the_last_step() -> None:
    bounds, asked = Bounds(rf=2, min_isr=1, kills=1, disks_outside=1), PROPERTIES["isr-has-hw"]
    answer = ask("kraft", bounds, asked)
    assert answer.trace is not None
    page = render_counterexample("kraft", bounds, asked, answer, answer.trace)
    assert page.count("✕ Violated here: ISR members have the log up to the HW.") == 1


def test_the_page_loads_nothing_and_runs_no_script(answer: Answer, trace: Trace) -> None:
    page = render_counterexample(VARIANT, BOUNDS, PROPERTIES["committed"], answer, trace)
    assert "\"default-src 'none'; style-src 'unsafe-inline'\"" in page
    assert "<script" not in page
    assert not re.search(r"\b(?:src|href)=\"(?!#)", page)


def test_a_hostile_text_stays_text(answer: Answer, trace: Trace) -> None:
    hostile = "</style><script>document.title='owned'</script>"
    page = render_counterexample(VARIANT, BOUNDS, Property("x", hostile, hostile), answer, trace)
    assert "<script" not in page
    assert hostile.lower() in unescape(page).lower()


def test_the_steps_of_the_page_are_the_steps_that_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], trace: Trace
) -> None:
    assert main([*LOSING, "--html", str(tmp_path / "page.html")]) == ExitCode.CONTRADICTED
    told = capsys.readouterr().out
    assert f"page:      {tmp_path / 'page.html'}\n" in told
    text = " ".join(unescape(re.sub(r"<[^>]+>", "", (tmp_path / "page.html").read_text())).split())
    for line in list(lines(trace, VARIANTS[VARIANT]))[2::2]:
        what, _, clause = line.split(". ", 1)[-1].strip().rstrip("]").partition("  [")
        assert line in told
        if clause:
            assert f"{what} {clause}" in text


@pytest.mark.parametrize(
    ("limit", "code"),
    [([], ExitCode.AS_PREDICTED), (["--bounds", "steps=3"], ExitCode.INCONCLUSIVE)],
    ids=["holds", "limit"],
)
def test_without_a_counterexample_no_page_is_written_and_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: list[str], code: ExitCode
) -> None:
    page = tmp_path / "page.html"
    assert main([*CHECK, *limit, "--html", str(page)]) == code
    assert f"page:      none: there is no counterexample to draw; {page} was not written\n" in capsys.readouterr().out
    assert not page.exists()


def test_a_page_that_cannot_be_written_is_refused_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, "--html", str(tmp_path / "nowhere" / "page.html")]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert "the page cannot be written there" in told.err
    assert "name another file with --html" in told.err


def test_a_page_is_replaced_as_a_whole(tmp_path: Path, answer: Answer, trace: Trace) -> None:
    path = tmp_path / "page.html"
    path.write_text("older")
    write_page(path, render_counterexample(VARIANT, BOUNDS, PROPERTIES["committed"], answer, trace))
    assert path.read_text() == render_counterexample(VARIANT, BOUNDS, PROPERTIES["committed"], answer, trace)
    assert list(tmp_path.iterdir()) == [path]
