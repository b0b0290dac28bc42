"""Writes ebbtide/scenario/kafka_settings.txt: the settings of all known Kafka releases and of client libraries.

`python -m tools.kafka_settings` asks the jars of each known release, which it fetches, and the installed librdkafka and
kafka-python.
"""

from __future__ import annotations

import ctypes
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import confluent_kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka import __version__ as kafka_python_version

from cluster.runtime.java_programs import defined_settings
from ebbtide.releases.known_releases import KNOWN
from ebbtide.scenario.kafka_settings import KafkaSetting, Place

TABLE = Path(__file__).resolve().parents[1] / "ebbtide" / "scenario" / "kafka_settings.txt"
_HEAD = """# The settings that Kafka and client libraries define, as their releases say it.
# Made by `python -m tools.kafka_settings`; do not edit.
# A line has the place, the name, the type, and the first and the last known release with it; for a topic also the
# properties of nodes that are its default, in the order in which Kafka reads them.
"""
_TYPE = re.compile(r"\*Type: ([^*]+)\*")
_WORDS = {"enum value": "enum", "CSV flags": "flags", "pattern list": "patterns", "see dedicated API": "callback"}


def merge(releases: Iterable[Sequence[KafkaSetting]]) -> list[KafkaSetting]:
    """Return the settings of several releases, the oldest first, as one table; what the newest one says counts."""
    found: dict[tuple[str, str], KafkaSetting] = {}
    for release in releases:
        for one in release:
            first = found.get((one.place, one.name), one).first
            found[one.place, one.name] = KafkaSetting(one.place, one.name, one.type, first, one.last, one.defaults)
    return sorted(found.values(), key=lambda one: (one.place, one.name))


def librdkafka_settings() -> Iterator[KafkaSetting]:
    """Yield the settings of clients that the installed librdkafka lists, without second names of the same."""
    version = confluent_kafka.libversion()[0]
    for line in _listing().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        type_ = _TYPE.search(line)
        if type_ is None or "Alias for `" in line:
            continue
        for place, other in (("librdkafka", "C"), ("librdkafka-consumer", "P")):
            if cells[1] != other:
                yield KafkaSetting(cast(Place, place), cells[0], _WORDS.get(type_[1], type_[1]), version, version)


def kafka_python_settings() -> Iterator[KafkaSetting]:
    """Yield the settings of the installed kafka-python; the type is that of the default, by Kafka's word for it."""
    places: tuple[tuple[Place, type], ...] = (
        ("kafka-python", KafkaProducer),
        ("kafka-python-consumer", KafkaConsumer),
    )
    for place, client in places:
        for name, default in client.DEFAULT_CONFIG.items():  # type: ignore[attr-defined]
            type_ = {bool: "boolean", int: "int", float: "int"}.get(type(default), "other")
            yield KafkaSetting(place, name, type_, kafka_python_version, kafka_python_version)


def _listing() -> str:
    """Return what librdkafka says of its settings: a table in Markdown."""
    folder = Path(confluent_kafka.__file__).resolve().parents[1] / "confluent_kafka.libs"
    library, libc = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*")))), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as printed:
        stream = ctypes.c_void_p(libc.fopen(printed.name.encode(), b"w"))
        library.rd_kafka_conf_properties_show(stream)
        libc.fclose(stream)
        return printed.read().decode()


def text_of(settings: Iterable[KafkaSetting]) -> str:
    """Return the table as a file."""
    return _HEAD + "".join(f"{one.line()}\n" for one in settings)


def main() -> int:
    """Write the table."""
    releases = [defined_settings(one.version, lambda _: None) for one in KNOWN]
    TABLE.write_text(text_of(merge([[*librdkafka_settings(), *kafka_python_settings()], *releases])), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
