"""Lays a counterexample out: a column for each lane, a row for each step."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.counterexample.messages import CONTROLLER, OUTSIDE, LaneMessage, Moment, messages_of
from analysis.counterexample.model import (
    DrawnCell,
    DrawnCounterexample,
    DrawnLogRecord,
    DrawnMessage,
    DrawnStep,
)
from analysis.spec.explore.trace import Step, Trace
from analysis.spec.explore.wording import (
    BEGINNING,
    actor_label,
    brokers_with,
    clause_of,
    partition_parts,
    record_names,
    sentence,
    state_line,
)
from analysis.spec.model import words as w
from analysis.spec.model.words import DATA_BITS, LOG, MAX_RECORDS, SharedState
from analysis.spec.protocol import Protocol

_MESSAGE_PX = 27
_TOP_PX = 6
_CELL_PX = 70
_RECORD_PX = 19
_LETTER_PX, _PADDING_PX = 6.1, 8
"""The mean width of a letter in a cell, and the room beside a text."""
_MARGIN = 0.04
"""The part of a lane that stays free on each side of a cell."""
_EDGE = 30.0
"""A label so near to an edge, in per cent, begins or ends at its arrow and is not centred on it."""


class _Lanes:
    """The places of the lanes: outside, the controller, then the brokers."""

    def __init__(self, brokers: list[int]) -> None:
        self.all = (OUTSIDE, CONTROLLER, *brokers)

    def left(self, lane: int) -> float:
        return 100 * self.all.index(lane) / len(self.all)

    def middle(self, lane: int) -> float:
        return self.left(lane) + 50 / len(self.all)

    @property
    def width(self) -> float:
        return 100 / len(self.all)

    def names(self) -> tuple[tuple[str, str, str], ...]:
        """The name, the short name and the place of each lane."""
        short = {OUTSIDE: "out", CONTROLLER: "ctrl"}
        return tuple((_lane_name(lane), short.get(lane, str(lane)), _percent(self.middle(lane))) for lane in self.all)


def draw(trace: Trace, protocol: Protocol) -> DrawnCounterexample:
    """Return the shapes of a counterexample; `protocol` is the variant that it was found in."""
    lanes = _Lanes(list(trace.initial))
    nothing = Moment(0, trace.initial)
    first = Step("", 0, 0, (), trace.shared, 0, trace.initial, 0)
    rows = [_row(lanes, 0, first, nothing, ("", BEGINNING[:1].upper() + BEGINNING[1:], ""), ())]
    before = nothing
    for number, step in enumerate(trace.steps, 1):
        order = trace.orders.get(number - 1, step.brokers)
        words = (*sentence(step, order), clause_of(step.kind, protocol))
        rows.append(_row(lanes, number, step, before, words, messages_of(step, before, order)))
        before = Moment(step.data, step.words)
    cells = [cell for row in rows for cell in row.cells]
    longest = max(len(text) for text in ("controller", *(cell.text for cell in cells)))
    return DrawnCounterexample(
        lanes=lanes.names(),
        steps=tuple(rows),
        wide_px=round((longest * _LETTER_PX + _PADDING_PX) * len(lanes.all)),
        looks=frozenset({look for cell in cells for look in (cell.look, cell.condition_look) if look}),
    )


def _row(
    lanes: _Lanes,
    number: int,
    step: Step,
    before: Moment,
    words: tuple[str, str, str],
    messages: tuple[LaneMessage, ...],
) -> DrawnStep:
    who, what, clause = words
    cells_y = _TOP_PX + _MESSAGE_PX * len(messages)
    cells = [_cell(lanes, broker, step, before) for broker in step.words]
    if step.shared.in_flight:
        cells.insert(0, _in_flight(lanes, step))
    return DrawnStep(
        number=number,
        who=actor_label(who),
        what=what,
        clause=clause,
        state=tuple(partition_parts(step.shared, step.data, step.words)),
        lost=record_names(step.lost),
        messages=tuple(_message(lanes, at, one) for at, one in enumerate(messages)),
        cells=tuple(cells),
        cells_y=cells_y,
        height=cells_y + _CELL_PX,
        description=" ".join(
            [
                f"{_lane_name(one.sender)} to {_lane_name(one.receiver)}: {one.label}."
                if one.sender != one.receiver
                else f"{_lane_name(one.sender)}: {one.label}."
                for one in messages
            ]
            + ["State after the step:", state_line(step.shared, step.data, step.words)]
        ),
    )


def _lane_name(lane: int) -> str:
    return {OUTSIDE: "outside", CONTROLLER: "controller"}.get(lane, f"broker {lane}")


def _message(lanes: _Lanes, at: int, message: LaneMessage) -> DrawnMessage:
    begin, end = lanes.middle(message.sender), lanes.middle(message.receiver)
    middle = (begin + end) / 2
    is_sign = begin == end
    if is_sign:
        anchor, label_x, dx = ("start", begin, 12) if begin < 50 else ("end", begin, -12)
    elif middle < _EDGE:
        anchor, label_x, dx = "start", min(begin, end), 4
    elif middle > 100 - _EDGE:
        anchor, label_x, dx = "end", max(begin, end), -4
    else:
        anchor, label_x, dx = "middle", middle, 0
    return DrawnMessage(
        begin=_percent(begin),
        end=_percent(end),
        points_right=end > begin,
        y=_TOP_PX + _MESSAGE_PX * at + 19,
        label=message.label,
        label_x=_percent(label_x),
        label_dx=dx,
        anchor=anchor,
        look=message.look,
    )


def _cell(lanes: _Lanes, broker: int, step: Step, before: Moment) -> DrawnCell:
    word = step.words[broker]
    control = word >> DATA_BITS
    look, text, short = _role(control, step.shared)
    condition_look, condition = _condition(control)
    missing = step.lost if control & w.LEADER else 0
    log = _log(word & LOG, word >> MAX_RECORDS & LOG, missing)
    return DrawnCell(
        left=_percent(lanes.left(broker) + _MARGIN * lanes.width),
        width=_percent((1 - 2 * _MARGIN) * lanes.width),
        middle=_percent(lanes.middle(broker)),
        look=look,
        text=text,
        short=short,
        condition_look=condition_look,
        condition=condition,
        log=log,
        notes=tuple(_notes(control, log)),
        has_changed=step.kind != "" and word != before.words[broker],
    )


def _notes(control: int, log: tuple[DrawnLogRecord, ...]) -> Iterator[tuple[str, str]]:
    """Yield the texts below a cell, long and short."""
    if not log and control & w.REPLICA:
        yield "empty log", "empty"
    if control & w.ANSWERED:
        answer = record_names(control >> w.ANSWER_AT & LOG) or "empty"
        yield f"answered {answer}", f"ans. {answer}"


def _role(control: int, shared: SharedState) -> tuple[str, str, str]:
    """Return the look, the text and the short text of a broker's part in the partition."""
    if control & w.LEADER:
        return ("recovering", "RECOVERING", "recov.") if shared.recovering else ("leader", "leader", "leader")
    if control & w.IN_ISR:
        return "isr", "ISR", "ISR"
    if control & w.IN_ELR:
        return ("elr", "ELR, last known", "ELR") if control & w.LAST_KNOWN else ("elr", "ELR", "ELR")
    if control & w.LAST_KNOWN:
        return "last-known-leader", "last known", "known"
    return ("replica", "out of ISR", "out") if control & w.REPLICA else ("none", "no replica", "none")


def _condition(control: int) -> tuple[str, str]:
    """Return the look and the text of a broker that the controller cannot use."""
    if not control & w.UP:
        return "down", "stopped" if control & w.CLEAN else "down"
    return ("", "") if control & w.UNFENCED else ("fenced", "fenced")


def _in_flight(lanes: _Lanes, step: Step) -> DrawnCell:
    asked = brokers_with(w.PROPOSED, step.words)
    return DrawnCell(
        left=_percent(lanes.left(CONTROLLER) + _MARGIN * lanes.width),
        width=_percent((1 - 2 * _MARGIN) * lanes.width),
        middle=_percent(lanes.middle(CONTROLLER)),
        look="requests-held",
        text=f"asked {asked}",
        short=asked,
        has_changed=step.kind.startswith("ask-"),
    )


def _log(log: int, flushed: int, missing: int) -> tuple[DrawnLogRecord, ...]:
    shown = [record for record in range(MAX_RECORDS) if (log | missing) >> record & 1]
    return tuple(
        DrawnLogRecord(
            name=record_names(1 << record),
            dx=round((at - (len(shown) - 1) / 2) * _RECORD_PX),
            look="missing" if not log >> record & 1 else "flushed" if flushed >> record & 1 else "unflushed",
        )
        for at, record in enumerate(shown)
    )


def _percent(place: float) -> str:
    return f"{place:.3f}%"
