"""Says the time without service and the age of lost records in a few words."""

from __future__ import annotations

from typing import Literal

from ebbtide.record.outcomes import lost_counts
from ebbtide.record.verdict import Loss, LossEvent, Outage, Unavailability, Verdict

Service = Literal["no_leader", "no_ack", "no_service"]
"""The services that a partition may lack, by their keys in verdict.json."""

NOBODY_WAITED = ("no producer sent with acks=all", "no record was sent to it with acks=all")
"""Why `no_ack` is null where there was nothing to measure."""

NOBODY_ASKED = "no client asked for it"
"""Why `no_service` is null where there was nothing to measure."""

LOST_BY: dict[LossEvent, str] = {"disk": "when a disk lost it", "election": "at the election"}


def outage_of(one: Unavailability, service: Service) -> Outage | None:
    """Return the outage of one service on a partition; None if it is not known."""
    return {"no_leader": one.no_leader, "no_ack": one.no_ack, "no_service": one.no_service}[service]


def is_measurable(one: Unavailability, service: Service) -> bool:
    """Return whether the service could be missed there: somebody waited for it."""
    return one.unknown.get(service) not in (*NOBODY_WAITED, NOBODY_ASKED)


def longest_outage(verdict: Verdict, service: Service) -> Unavailability | None:
    """Return the partition with the longest outage of a service; None if none is known."""
    known = [one for one in verdict.unavailable if outage_of(one, service) is not None]
    return max(known, key=lambda one: found.longest_s if (found := outage_of(one, service)) else 0.0, default=None)


def outage_text(verdict: Verdict, service: Service) -> str:
    """Return the longest outage of a service over all partitions, as `3.2 s (t-0)`.

    Where that partition had several: also their sum, as `3.2 s (t-0), 7.5 s in 4 spells`.

    `?`: not known. `-`: nobody waited for it.
    """
    measurable = [one for one in verdict.unavailable if is_measurable(one, service)]
    if verdict.unavailable and not measurable:
        return "-"
    worst = longest_outage(verdict, service)
    found = outage_of(worst, service) if worst is not None else None
    if worst is None or found is None:
        return "?"
    partly = found.at_least or any(outage_of(one, service) is None for one in measurable)
    if found.spells == 0:
        return "?" if partly else "none" if found.longest_s == 0 else f"at most {found.longest_s:g} s"
    total = f", {found.total_s:.1f} s in {found.spells} spells" if found.spells > 1 else ""
    return f"{'at least ' if partly else ''}{found.longest_s:.1f} s ({worst.topic}-{worst.partition}){total}"


def leaderless_text(verdict: Verdict) -> str:
    """Return the longest time without a leader, and the longest time without service if that was longer.

    The metadata log names a dead leader until the controller fences it, so a time without a leader is not all that
    clients miss.
    """
    text = outage_text(verdict, "no_leader")
    worst, leaderless = longest_outage(verdict, "no_service"), longest_outage(verdict, "no_leader")
    unserved = worst.no_service if worst is not None else None
    known_s = leaderless.no_leader.longest_s if leaderless is not None and leaderless.no_leader is not None else 0.0
    if worst is not None and unserved is not None and unserved.longest_s > known_s:
        log = {"none": "the metadata log had a leader", "?": "the metadata log is not known"}.get(text, text)
        least = "at least " if unserved.at_least else ""
        return f"{log}; no broker served {worst.topic}-{worst.partition} for {least}{unserved.longest_s:.1f} s"
    is_known = all(one.no_service is not None for one in verdict.unavailable)
    return text if text != "none" or is_known else "none in the metadata log"


def oldest_loss(verdict: Verdict) -> Loss | None:
    """Return the loss with the oldest committed record, else the oldest record, when it was lost."""
    known = [one for one in verdict.losses if one.oldest_s is not None]
    return max(known, key=lambda one: (one.committed, one.oldest_s or 0.0), default=None)


def oldest_text(verdict: Verdict) -> str:
    """Return how old the oldest lost record was when it was lost; `-` if none is lost, `?` if not known."""
    if not any(lost_counts(verdict)):
        return "-"
    oldest = oldest_loss(verdict)
    return "?" if oldest is None else age_text(oldest)


def age_text(loss: Loss) -> str:
    """Return how old the oldest record of a loss was, and when; `?` if it is not known."""
    if loss.oldest_s is None or loss.lost_by is None:
        return "?"
    return f"{loss.oldest_s:.1f} s, {LOST_BY[loss.lost_by]}"


def service_figures(verdict: Verdict) -> dict[str, str]:
    """Return the texts that reports of test runs have, by their names in JUnit XML."""
    return {
        "oldest_lost": oldest_text(verdict),
        "without_leader": leaderless_text(verdict),
        "without_ack": outage_text(verdict, "no_ack"),
    }
