"""Provides what the clients of a scenario need besides kafka-python, before a run makes anything."""

from __future__ import annotations

from collections.abc import Callable

from cluster.runtime.java_programs import ensure_compiler, ensure_tools
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
    tools: dict[tuple[str, bool], ToolCommand] = {}
    found = {}
    for producer in scenario.producers:
        if producer.library == "java":
            release, needs_compiler = producer.client_kafka or kafka, producer.needs_remote_java
            if (release, needs_compiler) not in tools:
                provide = ensure_compiler if needs_compiler else ensure_tools
                tools[release, needs_compiler] = provide(
                    release, lambda event: note(f"Kafka {event.version}: {event.phase}")
                )
            found[producer.id] = tools[release, needs_compiler]
    return found
