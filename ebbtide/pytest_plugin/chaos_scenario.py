"""The scenario of a `chaos` test: the parts of its marker, and the plugin's defaults for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ebbtide.pytest_plugin.markers import UNPLACED_CHAOS, MarkerPlace
from ebbtide.pytest_plugin.steps import as_toml
from ebbtide.releases.builds import number_of

if TYPE_CHECKING:
    from ebbtide.errors import EbbtideError, UsageError
    from ebbtide.scenario.model import Scenario

_TOPIC = "t"
_DEFAULTS: Mapping[str, object] = {
    "topics": {_TOPIC: {}},
    "producers": [{"id": 1, "topic": _TOPIC, "rate_per_s": 500}],
    "consumers": [{"id": 1, "topics": [_TOPIC]}],
}
"""The scenario of a chaos test without a marker: one partition, an acks=all producer, a consumer."""


def chaos_scenario(
    parts: Mapping[str, object],
    kafka: str,
    expected: Sequence[str] | None,
    marker: MarkerPlace = UNPLACED_CHAOS,
    *,
    publish: bool = False,
) -> Scenario:
    """Return the scenario of a chaos test, without steps.

    The run must show one of the `expected` causes or properties. If it expects none, no committed record may be lost,
    and no HW may go back; with `publish`, no acked record may be lost either. Raises `Problems` that name the place of
    the `marker`.
    """
    from ebbtide.errors import Problems
    from ebbtide.scenario.mismatches import is_within
    from ebbtide.scenario.parse import scenario_from_decoded
    from ebbtide.scenario.shipped import show_example

    raw = {
        "name": "chaos",
        "title": "The steps of a test",
        "description": "The test itself ran the steps.",
        "kafka": [kafka],
        **_DEFAULTS,
        **as_toml(parts),
        "predictions": [_prediction(kafka, expected, publish=publish)],
    }
    problems: list[EbbtideError] = [*_defaults_without_topic(parts)]
    needed = [str(one.where) for one in problems]
    try:
        scenario = scenario_from_decoded(raw, file=marker.label, to_run=True)
    except Problems as found:
        # The author did not write the defaults, so no error may be about what is in them.
        others = [one for one in found.problems if not any(is_within(str(one.where), key) for key in needed)]
        problems = [*others, *problems]
    if not problems:
        return scenario
    for one in problems:
        if one.where is not None:
            one.at_line(marker.line_of(one.where))
    raise Problems(marker.label, problems, next=show_example(problems[0].where))


def _defaults_without_topic(parts: Mapping[str, object]) -> Iterator[UsageError]:
    """Report clients that the marker must give, because the default ones use a topic that it replaced."""
    from ebbtide.errors import UsageError

    topics = parts.get("topics", _DEFAULTS["topics"])
    if not isinstance(topics, Mapping) or not topics or _TOPIC in topics:
        return
    first = next(iter(topics))
    for key, verb, client in (
        ("producers", "writes to", {"id": 1, "topic": first, "rate_per_s": 500}),
        ("consumers", "reads", {"id": 1, "topics": [first]}),
    ):
        if key not in parts:
            yield UsageError(
                f"missing key: the default of {key} {verb} the topic {_TOPIC}, which this marker does not have",
                where=key,
                allowed=f"{key}=[{client}]",
            )


def _prediction(kafka: str, expected: Sequence[str] | None, *, publish: bool) -> Mapping[str, object]:
    from typing import get_args

    from ebbtide.scenario.model import AllowedCause

    causes = [one for one in expected or () if one in get_args(AllowedCause)]
    prediction: dict[str, object] = {"kafka": f"=={number_of(kafka)}", "clause": "the test's own expectation"}
    if len(causes) == 1:
        # The plugin itself checks that the cause occurred. The prediction only allows it: with more, a run without
        # the cause, or in which it only made the HW go back, would be inconclusive.
        prediction["loss"] = {"cause": causes[0]}
    elif expected is None:
        # What Kafka allows of a producer of the test's own may be a bug of the application all the same.
        prediction["loss"] = {"committed": "none", **({"uncommitted": "none"} if publish else {})}
        prediction["hw_regression"] = "none"
    return prediction
