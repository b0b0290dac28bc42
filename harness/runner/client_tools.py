"""Provides what the clients of a scenario need besides kafka-python, before a run makes anything."""

from __future__ import annotations

from collections.abc import Callable

from cluster.runtime.java_programs import ensure_compiler
from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError
from ebbtide.librdkafka import require_librdkafka
from ebbtide.scenario.model import Scenario


def librdkafka_users(scenario: Scenario) -> list[str]:
    """Return the places of a scenario's clients that use librdkafka, such as `producers[0]`."""
    producers = [f"producers[{index}]" for index, one in enumerate(scenario.producers) if one.library == "librdkafka"]
    consumers = [f"consumers[{index}]" for index, one in enumerate(scenario.consumers) if one.library == "librdkafka"]
    return producers + consumers


def require_libraries(scenario: Scenario) -> None:
    """Raise `HarnessError` if a client library of the scenario is not installed."""
    users = librdkafka_users(scenario)
    if not users:
        return
    try:
        require_librdkafka()
    except HarnessError as error:
        raise HarnessError(
            f"the scenario has librdkafka clients, and {error.what}",
            where=", ".join(users),
            got=error.got,
            allowed=error.allowed,
            next=error.next,
        ) from None


def java_tools(scenario: Scenario, kafka: str, note: Callable[[str], None]) -> dict[int, ToolCommand]:
    """Return the command of each Java producer by its id; fetches what is missing.

    The client is of the release that the producer names, else of `kafka`. Raises `EbbtideError`.
    """
    releases = {one.id: one.client_kafka or kafka for one in scenario.producers if one.library == "java"}
    tools = {
        release: ensure_compiler(release, lambda event: note(f"Kafka {event.version}: {event.phase}"))
        for release in set(releases.values())
    }
    return {producer: tools[release] for producer, release in releases.items()}
