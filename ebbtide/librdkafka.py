"""Finds confluent-kafka, which contains librdkafka. Only clients that a scenario gives librdkafka need it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from packaging.version import Version

from ebbtide.errors import HarnessError

OLDEST = "2.12"
"""The oldest confluent-kafka that Ebbtide's clients are written for; pyproject.toml has the same."""

INSTALL = "pip install 'ebbtide[librdkafka]'    (in a checkout: .venv/bin/pip install -e '.[librdkafka]')"


def require_librdkafka() -> str:
    """Return the version of confluent-kafka. Raises `HarnessError` if it is missing or too old."""
    found = _installed()
    if found is None or Version(found) < Version(OLDEST):
        raise HarnessError(
            "confluent-kafka is not installed" if found is None else "confluent-kafka is too old",
            got=found,
            allowed=f"confluent-kafka {OLDEST} or newer, which contains librdkafka",
            next=INSTALL,
        )
    return found


def describe_librdkafka() -> str:
    """Load librdkafka, and return its version and that of confluent-kafka. Raises `HarnessError`."""
    package = require_librdkafka()
    import confluent_kafka

    return f"{confluent_kafka.libversion()[0]} (confluent-kafka {package})"


def _installed() -> str | None:
    if find_spec("confluent_kafka") is None:
        return None
    try:
        return version("confluent-kafka")
    except PackageNotFoundError:
        return None
