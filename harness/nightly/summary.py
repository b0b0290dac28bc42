"""Writes a night as a page of Markdown, to be read in the morning."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import msgspec

from analysis.record.protocol import judged_by
from ebbtide.record.files import write_atomically
from ebbtide.releases.known_releases import age_of
from ebbtide.shown_text import plural
from harness.nightly.job import Job, group_label
from harness.nightly.store import FinishedJob, Followup, JobEnd, NightPlan, SkippedJob

_End = JobEnd | Literal["known-bug"]
"""A contradiction by a known bug is its own end, so that it cannot hide another contradiction."""
_CONCLUSIVE: frozenset[_End] = frozenset({"contradicted", "known-bug", "as-predicted"})
"""Ends that say whether a contradiction is there; failed and inconclusive runs do not."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of runs whose outcome changed since the last conclusive night.

    - `new`: contradicted now and not then; a contradiction by a known bug does not count.
    - `gone`: contradicted then, by a known bug or not, and as predicted now.
    - `flaky`: repetitions of this night ended differently.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    flaky: tuple[str, ...]


def trend(history: Sequence[FinishedJob], night: str) -> Trend:
    """Compare `night` with the nights before it.

    Random schedules are left out: each runs once.
    """
    by_group: dict[str, dict[str, set[_End]]] = defaultdict(lambda: defaultdict(set))
    for done in history:
        if done.job.origin == "catalogue" and done.night <= night:
            by_group[done.job.group][done.night].add(done.ended if done.known_bug is None else "known-bug")
    now = {group: nights[night] for group, nights in by_group.items() if night in nights}
    then = {group: _last_conclusive(nights, before=night) for group, nights in by_group.items()}
    new = [group for group, ended in now.items() if "contradicted" in ended - then[group]]
    gone = [group for group, ended in now.items() if ended == {"as-predicted"} and then[group] - {"as-predicted"}]
    return Trend(
        new=tuple(sorted(new)),
        gone=tuple(sorted(gone)),
        flaky=tuple(sorted(group for group, ended in now.items() if len(ended) > 1)),
    )


def _last_conclusive(nights: Mapping[str, set[_End]], *, before: str) -> set[_End]:
    """Return a group's conclusive ends in the last conclusive night before `before`."""
    conclusive = [night for night, ended in nights.items() if night < before and ended & _CONCLUSIVE]
    return nights[max(conclusive)] & _CONCLUSIVE if conclusive else set()


_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot write; messages of Kafka and of the host contain NUL and ESC."""


def write_junit(path: Path, night: str, finished: Sequence[FinishedJob], skipped: Sequence[SkippedJob] = ()) -> None:
    """Write one suite for each target and one case for each run.

    A contradicted run is a failure, an inconclusive or failed run is an error, and a job that did not run is
    a skipped case. A contradiction by a known bug passes.
    """
    root = ElementTree.Element("testsuites", name=f"ebbtide {night}")
    jobs = [*(done.job for done in finished), *(one.job for one in skipped)]
    for target in sorted({str(job.target) for job in jobs}):
        of_target = [done for done in finished if str(done.job.target) == target]
        left_out = [one for one in skipped if str(one.job.target) == target]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"Kafka {target}",
            tests=str(len(of_target) + len(left_out)),
            failures=str(sum(done.ended == "contradicted" and not done.is_expected for done in of_target)),
            errors=str(sum(done.ended in ("inconclusive", "failed") for done in of_target)),
            skipped=str(len(left_out)),
            time=f"{sum(done.took_s for done in of_target):.3f}",
        )
        for done in of_target:
            _add_run(suite, done)
        for one in left_out:
            ElementTree.SubElement(_add_case(suite, one.job, 0.0), "skipped", message=one.why)
    for element in root.iter():
        element.attrib.update({name: _NO_XML.sub("\ufffd", value) for name, value in element.attrib.items()})
        element.text = None if element.text is None else _NO_XML.sub("\ufffd", element.text)
    ElementTree.indent(root)
    write_atomically(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_case(suite: ElementTree.Element, job: Job, took_s: float) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", classname=f"ebbtide.{job.runtime}.{job.scenario}", name=job.key, time=f"{took_s:.3f}"
    )


def _add_run(suite: ElementTree.Element, done: FinishedJob) -> None:
    case = _add_case(suite, done.job, done.took_s)
    properties = ElementTree.SubElement(case, "properties")
    for name, value in (
        ("record", done.run_id),
        ("outcome", done.word),
        ("seed", done.seed),
        *done.figures.items(),
    ):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=str(value))
    if not done.is_expected:
        tag = "failure" if done.ended == "contradicted" else "error"
        found = ElementTree.SubElement(case, tag, type=done.ended, message=done.why[0] if done.why else done.ended)
        found.text = "\n".join(done.why)


_ORDER: tuple[JobEnd, ...] = ("contradicted", "failed", "inconclusive", "as-predicted")
_SHORT = {"as-predicted": "ok", "contradicted": "**CONTRADICTED**", "inconclusive": "inconclusive", "failed": "failed"}


def summary_page(
    plan: NightPlan, finished: Sequence[FinishedJob], changes: Trend, runs: str, followups: Sequence[Followup] = ()
) -> str:
    """Return the summary page of a night as Markdown.

    `runs` is the folder of the records.
    """
    return "\n".join(_lines(plan, finished, changes, runs, {one.run_id: one for one in followups})) + "\n"


def _lines(
    plan: NightPlan, finished: Sequence[FinishedJob], changes: Trend, runs: str, followups: Mapping[str, Followup]
) -> Iterator[str]:
    counts = Counter(done.word for done in finished)
    left_out = f"; {len(plan.skipped)} not run" if plan.skipped else ""
    yield f"# Night {plan.night}"
    yield ""
    yield (
        f"{plural(len(finished), 'run')}: "
        + (", ".join(f"{counts[one]} {one}" for one in (*_ORDER, "no prediction") if counts[one]) or "none")
        + f"{left_out}."
    )
    if finished:
        yield (
            f"Time in runs {sum(done.took_s for done in finished) / 60:.1f} min; memory of the harness "
            f"{finished[0].harness_mib} MiB after the first run, {finished[-1].harness_mib} MiB after the last."
        )
    yield from _rules_of({done.job.target.kafka for done in finished})
    for title, groups in (("New", changes.new), ("Gone", changes.gone), ("Flaky", changes.flaky)):
        if groups:
            yield f"\n**{title}**: " + "; ".join(map(group_label, groups))
    yield from _table([done for done in finished if done.job.origin == "catalogue"])
    for ended in _ORDER[:-1]:
        mine = [done for done in finished if done.ended == ended and not done.is_expected]
        yield from _section(ended, mine, runs, followups)
    ids = {done.run_id for done in finished}
    if earlier := [one for one in followups.values() if one.run_id not in ids]:
        yield "\n## Contradictions of earlier nights, followed up\n"
        yield from (f"- `ebbtide analyze {runs}/{one.run_id}`: {one.describe()}" for one in earlier)
    known = Counter(
        f"{group_label(done.job.group)}: {done.known_bug}" for done in finished if done.known_bug is not None
    )
    if known:
        yield "\n## Known bugs, found again\n"
        yield from (f"- {what} ({count} of these runs)" for what, count in sorted(known.items()))
    yield from _skipped_lines(plan)
    yield from _coverage(finished)


def _rules_of(releases: Iterable[str]) -> Iterator[str]:
    """Say by which rules runs were judged, where these are not the release's own."""
    for rules, kafka in ((judged_by(kafka), kafka) for kafka in sorted(releases, key=age_of)):
        if rules is not None and (words := rules.in_words(kafka)):
            yield f"\n{kafka} is judged by {words}."


def _skipped_lines(plan: NightPlan) -> Iterator[str]:
    """List the runs of the catalogue that did not come about, grouped by the reason."""
    by_reason: dict[str, set[str]] = defaultdict(set)
    for one in plan.skipped:
        by_reason[one.why].add(f"{one.job.scenario} on {one.job.target}")
    if by_reason:
        yield "\n## Not run\n"
        yield from (f"- {why}: {', '.join(sorted(names))}" for why, names in sorted(by_reason.items()))


def _table(finished: Sequence[FinishedJob]) -> Iterator[str]:
    """Make the table of scenarios by targets; a cell counts how the repetitions ended."""
    if not finished:
        return
    targets = list(dict.fromkeys(_target(done) for done in finished))
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for done in finished:
        cells[done.job.scenario, _target(done)][done.ended] += 1
    yield "\n## Catalogue\n"
    yield "| scenario | " + " | ".join(targets) + " |"
    yield "|---|" + "---|" * len(targets)
    for scenario in sorted({done.job.scenario for done in finished}):
        row = [", ".join(f"{count} {_SHORT[one]}" for one, count in cells[scenario, name].items()) for name in targets]
        yield f"| {scenario} | " + " | ".join(cell or "-" for cell in row) + " |"


def _target(done: FinishedJob) -> str:
    return group_label(f"{done.job.target} ({done.job.runtime})")


def _section(
    ended: JobEnd, finished: Sequence[FinishedJob], runs: str, followups: Mapping[str, Followup]
) -> Iterator[str]:
    if not finished:
        return
    yield f"\n## {ended.capitalize()}\n"
    for done in finished:
        yield f"- {done.job.label}: {done.why[0] if done.why else 'no reason given'}"
        if done.run_id is not None:
            if done.run_id in followups:
                yield f"  - {followups[done.run_id].describe()}"
            yield from (f"  - `ebbtide {verb} {runs}/{done.run_id}`" for verb in ("analyze", "replay"))


def _coverage(finished: Sequence[FinishedJob]) -> Iterator[str]:
    reached: Counter[str] = Counter()
    for done in finished:
        reached.update(fact for fact, count in done.coverage.items() if count)
    if reached:
        yield "\n## Coverage\n"
        yield "| coverage fact | runs in which it came about |"
        yield "|---|---|"
        facts = sorted(reached.items(), key=lambda item: (-item[1], item[0]))
        yield from (f"| {fact} | {count} |" for fact, count in facts if not fact.startswith("action-"))
