"""A night as a page of Markdown: what a person reads in the morning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from harness.nightly.store import Done, Ended, Followup, NightPlan
from harness.nightly.trend import Trend

_ORDER: tuple[Ended, ...] = ("contradicted", "failed", "inconclusive", "as-predicted")
_SHORT = {"as-predicted": "ok", "contradicted": "**CONTRADICTED**", "inconclusive": "inconclusive", "failed": "failed"}


def summary(
    plan: NightPlan, dones: Sequence[Done], changes: Trend, runs: str, followups: Sequence[Followup] = ()
) -> str:
    """The page; `runs` is where the records are."""
    return "\n".join(_lines(plan, dones, changes, runs, {one.run_id: one for one in followups})) + "\n"


def _lines(
    plan: NightPlan, dones: Sequence[Done], changes: Trend, runs: str, followups: Mapping[str, Followup]
) -> Iterator[str]:
    counts = Counter(done.ended for done in dones)
    left_out = f"; {len(plan.skipped)} skipped" if plan.skipped else ""
    yield f"# Night {plan.night}"
    yield ""
    yield (
        f"{len(dones)} runs: "
        + (", ".join(f"{counts[one]} {one}" for one in _ORDER if counts[one]) or "none")
        + f"{left_out}."
    )
    if dones:
        yield (
            f"Time in runs {sum(done.took_s for done in dones) / 60:.1f} min; memory of the harness "
            f"{dones[0].harness_mib} MiB after the first run, {dones[-1].harness_mib} MiB after the last."
        )
    for title, groups in (("New", changes.new), ("Gone", changes.gone), ("Flaky", changes.flaky)):
        if groups:
            yield f"\n**{title}**: " + "; ".join(groups)
    yield from _table([done for done in dones if done.job.origin == "catalogue"])
    for ended in _ORDER[:-1]:
        mine = [done for done in dones if done.ended == ended and not done.expected]
        yield from _explained(ended, mine, runs, followups)
    ids = {done.run_id for done in dones}
    if earlier := [one for one in followups.values() if one.run_id not in ids]:
        yield "\n## Contradictions of earlier nights, followed up\n"
        yield from (f"- `ebbtide analyze {runs}/{one.run_id}`: {one.told()}" for one in earlier)
    known = Counter(f"{done.job.group}: {done.known_bug}" for done in dones if done.known_bug is not None)
    if known:
        yield "\n## Known bugs, found again\n"
        yield from (f"- {what} ({count} of these runs)" for what, count in sorted(known.items()))
    yield from _skipped(plan)
    yield from _coverage(dones)


def _skipped(plan: NightPlan) -> Iterator[str]:
    """Scenarios that the host cannot do, by what it lacks."""
    by_reason: dict[str, set[str]] = defaultdict(set)
    for one in plan.skipped:
        by_reason[one.why].add(one.job.scenario)
    if by_reason:
        yield "\n## Skipped\n"
        yield from (f"- {why}: {', '.join(sorted(names))}" for why, names in sorted(by_reason.items()))


def _table(dones: Sequence[Done]) -> Iterator[str]:
    """Scenarios by targets; a cell counts how the repetitions ended."""
    if not dones:
        return
    targets = list(dict.fromkeys(f"{done.job.target} ({done.job.runtime})" for done in dones))
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for done in dones:
        cells[done.job.scenario, f"{done.job.target} ({done.job.runtime})"][done.ended] += 1
    yield "\n## Catalogue\n"
    yield "| scenario | " + " | ".join(targets) + " |"
    yield "|---|" + "---|" * len(targets)
    for scenario in sorted({done.job.scenario for done in dones}):
        row = [", ".join(f"{count} {_SHORT[one]}" for one, count in cells[scenario, name].items()) for name in targets]
        yield f"| {scenario} | " + " | ".join(cell or "-" for cell in row) + " |"


def _explained(ended: Ended, dones: Sequence[Done], runs: str, followups: Mapping[str, Followup]) -> Iterator[str]:
    if not dones:
        return
    yield f"\n## {ended.capitalize()}\n"
    for done in dones:
        yield f"- {done.job.key}: {done.why[0] if done.why else 'no reason given'}"
        if done.run_id is not None:
            if done.run_id in followups:
                yield f"  - {followups[done.run_id].told()}"
            yield f"  - `ebbtide analyze {runs}/{done.run_id}`, `ebbtide replay {runs}/{done.run_id}`"


def _coverage(dones: Sequence[Done]) -> Iterator[str]:
    reached: Counter[str] = Counter()
    for done in dones:
        reached.update(fact for fact, count in done.coverage.items() if count)
    if reached:
        yield "\n## Coverage\n"
        yield "Runs in which each fact came about: " + ", ".join(
            f"{fact} {count}" for fact, count in sorted(reached.items()) if not fact.startswith("action-")
        )
