"""A container starts only if its image holds the release, or is the image of the build."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cluster.images.find import Image
from cluster.runtime import docker_node
from cluster.runtime.jvm import JavaProgram


@pytest.mark.parametrize(
    ("kafka", "jar", "exit_code"),
    [
        ("4.3.1", "kafka_2.13-4.3.1.jar", 0),
        ("4.3.1", "kafka_2.13-4.3.10.jar", docker_node.WRONG_RELEASE),
        ("4.5.0", "kafka_2.13-4.5.0-SNAPSHOT.jar", 0),
        ("4.5.0-SNAPSHOT@0123abcd", "kafka_2.13-4.3.1.jar", 0),
        ("4.5.0-SNAPSHOT@0123abcd", "other.jar", docker_node.WRONG_RELEASE),
    ],
)
def test_an_image_of_another_release_ends_at_once(
    kafka: str, jar: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, content in (("libs/" + jar, ""), ("gate", "run\n"), ("java", '#!/bin/sh\necho "$@"\n')):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setattr(docker_node, "LIBS", tmp_path / "libs")
    image, log = Image(reference="mine/kafka:dev", id="1", why="named"), tmp_path / "log"
    script = docker_node._script(tmp_path / "gate", log, image, kafka, {"run": JavaProgram(main="M", arguments=())})
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["/bin/sh", "-c", script], env=environment, check=False).returncode == exit_code
    assert str(tmp_path / "libs") in log.read_text()
