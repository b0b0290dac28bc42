"""Finds out what a cluster is before a watch makes anything on it: brokers, quorum, release, feature levels."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from cluster.kafka_api.connection import Refused, WireError
from cluster.kafka_api.metadata_log import quorum_voters
from cluster.snapshot.requests import ApiFacts, ask_api_versions
from cluster.snapshot.secure_connection import first_answer, hint_for
from cluster.snapshot.security import security_of
from cluster.watched.watch_topic import connection_to
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import (
    KNOWN,
    METADATA_VERSION,
    minor_release_of,
    patches_of,
    shown_release,
)

_ANSWER_S, _DEADLINE_S, _LEAST_S = 3.0, 14.0, 0.5


class WatchedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that answers.

    `brokers` maps the id of each registered broker to its advertised `host:port`. `voters` are the ids of the
    controllers; none: this user may not ask. `features` are the finalized levels. `release_how` says how `kafka` is
    known. `is_assumed`: only its minor release is, and the patch is the newest.
    """

    brokers: dict[int, str]
    voters: tuple[int, ...]
    features: dict[str, int]
    kafka: str
    is_assumed: bool
    release_how: str

    @property
    def shown_kafka(self) -> str:
        """The release in words, as every text has it."""
        return shown_release(self.kafka, is_assumed=self.is_assumed)


def probe_cluster(bootstrap: Sequence[str], command_config: str | None, kafka: str | None) -> WatchedCluster:
    """Ask the cluster what it is; `kafka` is the release that the user names.

    Raises `UsageError` within 15 s where it cannot be watched, with the reason.
    """
    deadline = time.monotonic() + _DEADLINE_S
    security = security_of(command_config)

    def answer_s() -> float:
        return min(_ANSWER_S, max(_LEAST_S, deadline - time.monotonic()))

    connection, _ = first_answer(bootstrap, security)
    first = connection.address
    with connection:
        connection.set_request_timeout(answer_s())
        try:
            brokers = connection.metadata([]).brokers
            voters = quorum_voters(connection)
        except Refused:
            voters = ()
        except WireError as error:
            hint = hint_for(error, first, security, answered=True)
            raise UsageError(
                "the broker stopped answering", where=f"--bootstrap {first}", got=str(error), next=hint
            ) from None
    if not brokers:
        raise UsageError("the cluster has no registered broker", where=first)
    answers, seen = list[ApiFacts](), "nobody was asked, because the addresses of --bootstrap took too long"
    for address in brokers.values():
        if time.monotonic() >= deadline:
            break
        try:
            with connection_to(address, command_config, request_timeout_s=answer_s()) as broker:
                answers.append(ask_api_versions(broker))
        except WireError as error:
            seen = str(error)
        except Refused as error:
            seen = f"{address} answers {error}"
    if not answers:
        raise UsageError(
            "no broker can be reached at the address that it advertises",
            where="advertised.listeners",
            got=seen,
            allowed="addresses that this host can reach",
            next="run ebbtide where the cluster's clients run",
        )
    name, how = (kafka, "as you said") if kafka is not None else _release_of(answers)
    return WatchedCluster(
        brokers=dict(sorted(brokers.items())),
        voters=voters,
        features=answers[0].finalized,
        kafka=name,
        is_assumed=kafka is None,
        release_how=how,
    )


def _release_of(answers: Sequence[ApiFacts]) -> tuple[str, str]:
    """Return the newest patch of the oldest minor release among the brokers.

    No request asks a broker for its release. The newest metadata.version that it supports says the minor release.
    """
    levels = [one.supported[METADATA_VERSION][1] for one in answers if METADATA_VERSION in one.supported]
    minor = minor_release_of(min(levels)) if levels else None
    if minor is None:
        raise UsageError(
            "which Kafka release this cluster runs is not known",
            where="--kafka",
            got=f"brokers that support metadata.version up to {min(levels)}" if levels else "no feature levels",
            allowed=f"known by themselves: up to {KNOWN[-1].version}",
            next="--kafka RELEASE",
        )
    return patches_of(minor)[-1], f"its brokers support metadata.version up to {min(levels)}"
