"""What `make setup` looks for on a host."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from checkout import ROOT

from cluster.jars.digests import sha256_of

_LOOK = """
shopt -s extglob
cd "$1"
eval "$(sed '/^# Finished work/,$d; /^cd "/d' tools/bootstrap)"
command() { case "$2" in $absent) return 1;; *) return 0;; esac; }
id() { echo "$user"; }
look_for_packages
printf '%s\\n' "${missing[@]}"
"""

_ANNOUNCE = """
cd "$1"
eval "$(sed '/^# Finished work/,$d; /^cd "/d' tools/bootstrap)"
command() { case "$2" in java|mvn) return 1;; *) return 0;; esac; }
id() { echo 1000; }
apt-cache() { printf '%s:\\n  Installed: (none)\\n  Candidate: %s\\n' "$2" "$candidate"; }
look_for_packages
announce_packages
"""


def missing_packages(*, user: int, docker_host: str, absent: str = "busybox") -> list[str]:
    """The packages that a host with everything but `absent` lacks."""
    environment = {**os.environ, "absent": absent, "user": str(user), "DOCKER_HOST": docker_host}
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


def test_a_user_who_has_docker_and_lacks_a_package_is_asked_for_what_images_need_too() -> None:
    """Else no helper container can be made, and power is lost by truncate."""
    assert missing_packages(user=1000, docker_host="unix:///x", absent="@(busybox|nft)") == [
        "nftables",
        "busybox-static",
    ]


@pytest.mark.parametrize(
    ("candidate", "java"),
    [("17.0.15+6-1~deb12u1", "openjdk-17-jre-headless"), ("(none)", "default-jre-headless")],
    ids=["Debian 12", "Debian 13"],
)
def test_a_user_who_is_not_root_is_shown_a_line_that_works_on_this_distribution(candidate: str, java: str) -> None:
    """Debian 13 knows the name openjdk-17-jre-headless, and has no package for it."""
    environment = {**os.environ, "candidate": candidate, "DOCKER_HOST": ""}
    done = subprocess.run(
        ["bash", "-c", _ANNOUNCE, "bash", str(ROOT)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert f"  {java:<26} runs Kafka and Spark\n" in done.stdout
    assert done.stderr.splitlines() == [
        "error: installing packages needs root",
        f"  next:    sudo apt-get update && sudo apt-get install --no-install-recommends {java} maven",
    ]


_PIP = """
cd "$1"
eval "$(sed '/^# Finished work/,$d; /^cd "/d' tools/bootstrap)"
pip_install --no-index --find-links "$2" --target "$2/installed" --require-hashes -r "$2/lock.txt"
"""


def install_locked(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Install what one line of a lock names, from a folder with one wheel: tide 1.0."""
    with zipfile.ZipFile(folder / "tide-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tide.py", "")
        wheel.writestr("tide-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tide\nVersion: 1.0\n")
        wheel.writestr("tide-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tide-1.0.dist-info/RECORD", "")
    (folder / "lock.txt").write_text(line.format(sha256=sha256_of(folder / "tide-1.0-py3-none-any.whl")))
    command = ["bash", "-c", _PIP, "bash", str(ROOT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_locked_library_is_installed(tmp_path: Path) -> None:
    done = install_locked(tmp_path, "tide==1.0 --hash=sha256:{sha256}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "installed" / "tide.py").is_file()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            f"tide==1.0 --hash=sha256:{'0' * 64}",
            "error: the registry's file of tide==1.0 is not one that requirements/ locks: its hash differs",
        ),
        (
            f"tide==1.1 --hash=sha256:{'0' * 64}",
            "error: the registry does not have tide==1.1, which requirements/ locks",
        ),
    ],
    ids=["another file", "no file"],
)
def test_a_library_that_is_not_the_locked_one_is_one_error_that_names_it(tmp_path: Path, line: str, error: str) -> None:
    done = install_locked(tmp_path, line)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        error,
        "  next:    .venv/bin/python -m pip config list    (which registry pip asks; try another one)",
        "  next:    make lock    (locks what the registry has now, if you trust it)",
    ]
    assert not (tmp_path / "installed").exists()
