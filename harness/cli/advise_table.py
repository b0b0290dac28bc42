"""Prints the advice about a cluster as tables.

Writes the scenarios of `ebbtide advise --scenario FOLDER`.
"""

from __future__ import annotations

import os
from pathlib import Path

from analysis.advise.advice import Advice
from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.events import WHEN_MEANS
from analysis.advise.headline import MARK, MARK_MEANS, has_marked_lines
from ebbtide.errors import UsageError
from ebbtide.named_files import write_named_file
from ebbtide.shown_text import plural
from harness.cli.advise_screen import heading
from harness.cli.output import print_table

_EVENT_WIDTH, _WHEN_WIDTH = 24, 11
"""The narrowest columns in which events and conditions can still be read."""


def print_advice(advice: Advice) -> None:
    """Print the cluster, the partitions in danger, and each group of topics with its lines."""
    for line in heading(advice):
        print(line)
    print("levels: " + ", ".join(f"{name} {level}" for name, level in advice.release.features.items()))
    if advice.after is not None:
        print("the column `after` has the answers after this change, for acks=1/acks=all")
    for group in advice.groups:
        _print_group(group, advice)
    if advice.defects:
        print("\nKnown bugs and findings on this release")
        for defect in advice.defects:
            change = f"Change: {defect.change}. Price: {defect.price}. See: {', '.join(defect.see)}"
            print(f"- {defect.name}: {defect.what}. {change}")
    print()
    for when, meaning in WHEN_MEANS.items():
        print(f"{when}: {meaning}")
    if has_marked_lines(advice):
        print(f"{MARK}: {MARK_MEANS}")
    print("survives: the model has no way to lose the record within the bounds; every state was searched")
    print("acks=0: nothing is promised; unknown means that what is on its way to a leader that goes may be lost")


def _print_group(advised: AdvisedGroup, advice: Advice) -> None:
    group = advised.group
    print()
    print(f"{group.settings.in_words()}: {group.topics_in_words()}")
    if advised.after is not None and advised.after.settings != group.settings:
        print(f"after the change: {advised.after.settings.in_words()}")
    if advised.min_isr_note is not None:
        print(f"note: {advised.min_isr_note}")
    has_after = advice.after is not None
    headers = ["event", "when", "likely", "acks=0", "acks=1", "acks=all", *(["after"] if has_after else [])]
    left_out = print_table(
        headers,
        [_cells(line, has_after) for line in advised.lines],
        least={0: _EVENT_WIDTH, 1: _WHEN_WIDTH},
        optional=(headers.index("likely"), headers.index("acks=0")),
    )
    if left_out:
        print(f"(no room for: {', '.join(left_out)}; --html and --json have all columns)")
    measured = [(line.today.event, line.measured) for line in advised.lines if line.measured]
    if measured:
        where = "by runtime (docs/scenarios.md), without acks=0 (docs/first-run.md)"
        print(f"measured in runs near these events, {where}:")
    for event, found in measured:
        print(f"- {event.in_words}: {'; '.join(found)}")
    for remedy in advised.remedies:
        then = f"Then these lose nothing with acks=all: {'; '.join(remedy.saves)}."
        print(f"change: {remedy.change}. Price: {remedy.price}. {then}")


def _cells(line: AdvisedLine, has_after: bool) -> list[str]:
    today, what = line.today, f"{line.what} {MARK}" if line.only_for_after else line.what
    answers = [one.says for one in (today.acks_0, today.acks_1, today.acks_all)]
    after = "-" if line.after is None else f"{line.after.acks_1.says}/{line.after.acks_all.says}"
    return [what, today.event.when, today.event.likelihood, *answers, *([after] if has_after else [])]


_SHOWN_MAX = 10


def check_folder(folder: Path) -> None:
    """Raise `UsageError` unless the folder is empty or new. Makes nothing, so that nothing is left of a failure."""
    try:
        found = next(folder.iterdir(), None) if os.path.lexists(folder) else None
    except OSError as error:
        raise _cannot_be_made(folder, error.strerror) from None
    if found is not None:
        raise UsageError(
            "the folder is not empty", where="--scenario", got=str(found), allowed="an empty folder, or a new one"
        )


def _cannot_be_made(folder: Path, why: str | None) -> UsageError:
    return UsageError(
        "the folder cannot be made", where="--scenario", got=f"{folder}: {why}", allowed="an empty folder"
    )


def write_scenarios(folder: Path, advice: Advice) -> list[str]:
    """Write a scenario for each line, and return what to say: how many, and the lines without one.

    Makes the folder. Raises `UsageError`.
    """
    from analysis.advise.scenarios import prefix_of, scenarios_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(folder, error.strerror) from None
    written: list[Path] = []
    missing: dict[str, None] = {}  # two lines of today are the same event where another RF has more brokers
    for one in advice.groups:
        sides = [(one.group, [line.today for line in one.lines], advice.release, "")]
        if advice.after is not None and one.after is not None:
            after = [line.after for line in one.lines if line.after is not None]
            sides.append((one.after, after, advice.after, "then-"))
        for group, lines, release, prefix in sides:
            for scenario in scenarios_of(group, lines, release, prefix=prefix + prefix_of(group.settings)):
                path = folder / f"{scenario.name}.toml"
                if scenario.text is None:
                    missing[f"  {scenario.name}: {scenario.why}"] = None
                elif path not in written:
                    write_named_file(path, scenario.text.encode(), "scenario")
                    written.append(path)
    said = [f"scenarios: {plural(len(written), 'file')} in {folder}"]
    if missing:
        said += [f"without a scenario: {plural(len(missing), 'answer')}", *list(missing)[:_SHOWN_MAX]]
        if len(missing) > _SHOWN_MAX:
            said.append(f"  and {len(missing) - _SHOWN_MAX} more")
    if written:
        said.append(f"next: ebbtide run {written[0]}")
    return said
