"""Asks the jars of a Kafka release which settings it defines.

`KafkaSettings.java` prints them in a process of its own, which starts no node and reads no properties.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cluster.jars.releases import Progress
from cluster.runtime.java_compiler import COMPILER, arguments_for
from cluster.runtime.verifiable_tools import ensure_compiler
from ebbtide.errors import HarnessError
from ebbtide.scenario.kafka_settings import KafkaSetting

_SOURCE = Path(__file__).with_name("KafkaSettings.java")
_PLACES = ("node ", "topic ", "producer ")
_TIMEOUT_S = 120.0


def defined_settings(kafka: str, progress: Progress) -> list[KafkaSetting]:
    """Return the settings that a release defines; fetches its jars if they are missing.

    Raises `UsageError` for an unknown release, and `HarnessError` if the jars do not say.
    """
    tool = ensure_compiler(kafka, progress)
    class_path = os.pathsep.join(tool.class_path)
    command = [tool.executable, *tool.options, "-cp", class_path, COMPILER, *arguments_for(_SOURCE, [])]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise HarnessError(
            "Kafka's jars do not say which settings they define", got=f"no answer in {_TIMEOUT_S:g} s"
        ) from None
    if said.returncode:
        last = (said.stderr.strip().splitlines() or ["nothing"])[-1]
        raise HarnessError("Kafka's jars do not say which settings they define", where=f"Kafka {kafka}", got=last)
    return [_setting(line, kafka) for line in said.stdout.splitlines() if line.startswith(_PLACES)]


def _setting(line: str, kafka: str) -> KafkaSetting:
    place, name, type_, *defaults = line.split()
    return KafkaSetting.of_line(" ".join((place, name, type_, kafka, kafka, *defaults)))
