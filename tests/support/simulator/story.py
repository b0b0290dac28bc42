"""Tells a history in plain sentences, with the truth of its losses and a judge's answers beside it."""

from __future__ import annotations

from collections import Counter

from ebbtide.record.steps import StepEntry
from simulator.compare import Answers, Judged, kind_of
from simulator.faults import START_NS
from simulator.history import LostRecord, Row, TrueHistory

_SHOWN_IF_THERE = ("elr", "last_known_elr", "adding", "removing")


def story(history: TrueHistory, answers: Answers | None = None) -> str:
    """Return what happened, line by line; with `answers`, how each group of losses was judged."""
    setup = history.script.setup
    lines = [
        f"History {history.script.seed}: Kafka {setup.kafka}, {setup.features}, {setup.brokers} brokers, "
        f"min ISR {setup.min_isr}, unclean election {setup.unclean}, acks {setup.acks}."
    ]
    if history.script.violation is not None:
        did = "happened" if history.violated else "was planted and did not happen"
        lines.append(f"The violation {history.script.violation} {did}.")
    if history.script.lacks:
        lines.append(f"Missing evidence: {', '.join(sorted(history.script.lacks))}.")
    told = [(_state_at(row), line) for row, line in _state_lines(history)]
    told += [(row["at_ns"], _broker_line(row)) for row in history.tables["brokers"] if row["metadata_offset"] > 8]
    told += [(step.fired_ns or 0, _step_line(step)) for step in history.steps or ()]
    lines += [f"{_seconds(at)}  {line}" for at, line in sorted(told, key=lambda one: one[0])]
    return "\n".join([*lines, *_loss_lines(history, answers)])


def _seconds(at_ns: int) -> str:
    return f"{(at_ns - START_NS) / 1e9:7.3f} s"


def _state_at(row: Row) -> int:
    return int(row["at_ns"])


def _state_lines(history: TrueHistory) -> list[tuple[Row, str]]:
    found = []
    for row in history.tables["partitions"]:
        led = " (led)" if row["metadata_offset"] in history.led else ""
        extra = "".join(f", {name} {row[name]}" for name in _SHOWN_IF_THERE if row[name])
        extra += ", recovering" if row["leader_recovery_state"] else ""
        found.append(
            (
                row,
                f"[{row['metadata_offset']}] t-{row['partition']}: leader {row['leader']}{led}, epoch "
                f"{row['leader_epoch']}, ISR {row['isr']} of {row['replicas']}{extra}",
            )
        )
    return found


def _broker_line(row: Row) -> str:
    return f"[{row['metadata_offset']}] broker {row['broker']} {row['event']}"


def _step_line(step: StepEntry) -> str:
    healed = "" if step.healed_ns is None else f", until {_seconds(step.healed_ns)}"
    logs = "".join(f"; node {node}: {_logs(proof)}" for node, proof in step.proof.get("nodes", {}).items())
    logs = f"; {_logs(step.proof)}" if "logs" in step.proof else logs
    asked = f" {step.parameters}" if step.parameters else ""
    return f"step {step.index}: {step.step} {step.whom or list(step.nodes)}{asked}{healed}{logs}"


def _logs(proof: Row) -> str:
    return ", ".join(f"{name} {log['leo_before']} -> {log['leo_after']}" for name, log in proof.get("logs", {}).items())


def _loss_lines(history: TrueHistory, answers: Answers | None) -> list[str]:
    groups: Counter[tuple[object, ...]] = Counter()
    examples: dict[tuple[object, ...], LostRecord] = {}
    for lost in history.lost:
        answer = None if answers is None else answers.get(lost.key, Judged())
        key = (
            lost.kind,
            lost.until,
            lost.partition,
            lost.acks,
            tuple(sorted(lost.right, key=str)),
            lost.road,
            lost.winner_lacks,
            answer,
        )
        groups[key] += 1
        examples.setdefault(key, lost)
    lines = []
    for key, count in groups.items():
        lost, answer = examples[key], key[-1]
        truth = " or ".join(f"{cause} at [{at}]" for cause, at in sorted(lost.right, key=str))
        line = (
            f"{count} {lost.kind} of t-{lost.partition}, acks={lost.acks}, first offset {lost.offset} "
            f"of epoch {lost.epoch}, sent {_seconds(lost.sent_ns)}, acked {_seconds(lost.done_ns)}: {truth}; "
            f"broker {lost.winner}, elected by a {lost.road} election, lacks it ({lost.winner_lacks})"
        )
        if answers is not None:
            judged = answers.get(lost.key, Judged())
            kind = kind_of(lost, judged, violated=history.violated)
            line += f"; judged {judged.cause} at [{judged.election}]: {kind}"
        lines.append(line)
    return lines
