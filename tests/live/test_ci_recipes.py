"""The recipes for CI work line by line: each step runs in a minimal Debian root, as the recipe's user."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from host_turn import HOST
from live.minimal_root import MinimalRoot

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "pytest"
PROJECT = {
    "pyproject.toml": '[project]\nname = "orders"\nversion = "1"\n[tool.setuptools]\npy-modules = []\n',
    "test_orders.py": """
import pytest
from ebbtide import leader, step

@pytest.mark.kafka("4.3.1")
def test_orders_survive(chaos):
    chaos.create_topic("orders")
    chaos.kill(leader("orders-0"), name="dead")
    chaos.start(step("dead"))
""",
}
LONGEST_S = 900.0

pytestmark = [pytest.mark.live, pytest.mark.slow]


def github() -> list[str]:
    """The commands of the workflow's steps."""
    text = (EXAMPLES / "github-workflow.yml").read_text()
    (job,) = yaml.safe_load(text)["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def gitlab() -> tuple[list[str], dict[str, str], list[str]]:
    """The commands of the job, its variables, and the packages that an administrator installs."""
    text = (EXAMPLES / "gitlab-ci.yml").read_text()
    job: dict[str, Any] = yaml.safe_load(text)["kafka"]
    packages = re.search(r"installs there: ((?:[a-z0-9# -]|\n)+)\.", text)
    assert packages is not None
    words = packages[1].replace("#", " ").split()
    return [*job["script"], *job["after_script"]], job["variables"], words


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinimalRoot]:
    """The root of both recipes, with a clone of this checkout."""
    made = MinimalRoot(tmp_path_factory.mktemp("ci") / "root", "runner")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(made.root / "ebbtide")], check=True)
    # git clones no repository of another user.
    made.give(made.root / "ebbtide")
    yield made
    subprocess.run(["rm", "-rf", "--one-file-system", str(made.root)], check=True)


def checkout(root: MinimalRoot, name: str) -> str:
    """A project in the user's home, as a checkout leaves it; returns its folder in the root."""
    for file, text in PROJECT.items():
        (root.home / name).mkdir(exist_ok=True)
        (root.home / name / file).write_text(text)
    root.give(root.home)
    return f"/home/{root.user}/{name}"


def run_each(root: MinimalRoot, commands: list[str], folder: str, **environment: str) -> None:
    for command in commands:
        if "-m pytest" in command:
            HOST.take_back()
        else:
            HOST.lend()  # what installs takes minutes
        done = root.run(command, folder, LONGEST_S, **environment)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_the_workflow_for_github_runs_on_a_runner_that_has_nothing(root: MinimalRoot) -> None:
    folder = checkout(root, "for-github")
    subprocess.run(["cp", "-a", str(root.root / "ebbtide"), str(root.home / "for-github/.ebbtide")], check=True)
    root.give(root.home)
    run_each(root, github(), folder)
    assert 'tests="1"' in (root.home / "for-github/junit.xml").read_text()
    assert (root.home / ".cache/ebbtide/kafka/4.3.1").is_dir()


def test_the_job_for_gitlab_runs_for_a_user_without_sudo(root: MinimalRoot) -> None:
    commands, variables, packages = gitlab()
    folder = checkout(root, "for-gitlab")
    run_each(
        root,
        [f"sudo apt-get -qq update; sudo apt-get -qq -y install --no-install-recommends {' '.join(packages)}"],
        folder,
    )
    (root.root / "etc/sudoers.d/user").unlink()
    own = {name: value.replace("$CI_PROJECT_DIR", folder) for name, value in variables.items()}
    run_each(root, commands, folder, EBBTIDE_REPOSITORY="/ebbtide", **own)
    assert 'tests="1"' in (root.home / "for-gitlab/junit.xml").read_text()
    assert (root.home / "for-gitlab/.cache/ebbtide/kafka/4.3.1").is_dir()
