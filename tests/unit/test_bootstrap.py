"""What `make setup` looks for on a host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from checkout import ROOT

_LOOK = """
cd "$1"
eval "$(sed '/^# Finished work/,$d; /^cd "/d' tools/bootstrap)"
command() { case "$2" in "$absent") return 1;; *) return 0;; esac; }
id() { echo "$user"; }
look_for_packages
printf '%s\\n' "${missing[@]}"
"""


def missing_packages(*, user: int, docker_host: str) -> list[str]:
    """The packages that a host with everything but busybox lacks."""
    environment = {**os.environ, "absent": "busybox", "user": str(user), "DOCKER_HOST": docker_host}
    done = subprocess.run(
        ["bash", "-c", _LOOK, "bash", str(ROOT)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("user", "docker_host", "wanted"),
    [(0, "unix:///x", ["busybox-static"]), (0, "", []), (1000, "unix:///x", [])],
    ids=["root-with-docker", "root-without", "a-user"],
)
def test_the_shell_of_images_comes_along_where_docker_is(user: int, docker_host: str, wanted: list[str]) -> None:
    if not docker_host and Path("/var/run/docker.sock").is_socket():
        pytest.skip("a Docker daemon is here")
    assert missing_packages(user=user, docker_host=docker_host) == wanted
