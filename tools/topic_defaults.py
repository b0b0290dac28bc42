"""Writes ebbtide/scenario/topic_defaults.toml: which properties of brokers are the defaults of which topic configs.

`python -m tools.topic_defaults RELEASE...` asks fetched Kafka releases, the newest first; what a newer one says counts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster.jars.releases import jars_of
from cluster.runtime.java_compiler import COMPILER, arguments_for, compiler_jars

TABLE = Path(__file__).resolve().parents[1] / "ebbtide" / "scenario" / "topic_defaults.toml"
_SOURCE = Path(__file__).with_name("TopicDefaults.java")
_HEAD = """# By property of a broker, the topic config whose default it is. Of several for one config, Kafka reads the
# first one that is set. Made by `python -m tools.topic_defaults {releases}`; do not edit.

"""


def topic_defaults_of(kafka: str) -> dict[str, str]:
    """Return the topic config of each property that is the default of one, as this release says it."""
    class_path = ":".join(map(str, [*jars_of(kafka), *compiler_jars()]))
    command = ["java", "-cp", class_path, COMPILER, *arguments_for(_SOURCE, [])]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in printed.splitlines())


def main(releases: Sequence[str]) -> int:
    """Write the table."""
    found: dict[str, str] = {}
    for kafka in releases:
        found = {**topic_defaults_of(kafka), **found}
    rows = "".join(f'"{name}" = "{config}"\n' for name, config in found.items())
    TABLE.write_text(_HEAD.format(releases=" ".join(releases)) + rows, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
