"""Writes a night as a page of Markdown, to be read in the morning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.plurals import plural
from harness.nightly.job import group_label
from harness.nightly.store import FinishedJob, Followup, JobEnd, NightPlan
from harness.nightly.trend import Trend

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
            yield f"  - `ebbtide analyze {runs}/{done.run_id}`, `ebbtide replay {runs}/{done.run_id}`"


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
