"""The recipes for CI: what they cache is what they use, and what needs root is in steps of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "pytest"
BOOTSTRAP = EXAMPLES.parents[1] / "tools" / "bootstrap"


def workflow() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())["jobs"].values()
    return list(job["steps"])


def releases(command: str) -> str:
    (found,) = re.findall(r"tools/bootstrap (.*)", command)
    return "-".join(found.split())


def packages(text: str) -> set[str]:
    """The packages of an installation line, or of the comment that names them."""
    return {
        word for word in re.findall(r"[a-z0-9.-]+", text) if word in re.findall(r"need (\S+) ", BOOTSTRAP.read_text())
    }


def test_only_two_steps_of_the_workflow_use_sudo() -> None:
    assert [step["name"] for step in workflow() if "sudo" in step.get("run", "")] == ["packages", "user namespaces"]


def test_both_recipes_cache_the_releases_that_they_fetch() -> None:
    (cached,) = [step["with"] for step in workflow() if "cache" in step.get("uses", "")]
    (install,) = [step["run"] for step in workflow() if step.get("name") == "install"]
    assert cached["key"].startswith(f"ebbtide-{releases(install)}-")
    assert "~/.cache/ebbtide" in cached["path"]
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["kafka"]
    assert job["cache"]["key"] == f"ebbtide-{releases(' '.join(job['script'][1:2]))}"
    (folder,) = job["cache"]["paths"]
    for name in ("PIP_CACHE_DIR", "EBBTIDE_CACHE"):
        assert job["variables"][name].startswith(f"$CI_PROJECT_DIR/{folder}")


def test_both_recipes_install_what_bootstrap_looks_for_on_a_machine_without_docker() -> None:
    looked_for = BOOTSTRAP.read_text().split("look_for_packages() {")[1].split("if [ -n")[0]
    wanted = set(re.findall(r"need (\S+) ", looked_for)) - {"mount", "util-linux", "python3"} | {"python3-venv"}
    (install,) = [step["run"] for step in workflow() if step.get("name") == "packages"]
    assert packages(install) == wanted
    assert packages((EXAMPLES / "gitlab-ci.yml").read_text().split("kafka:")[0]) == wanted


def test_a_host_that_lacks_something_fails_the_job_and_the_host_is_left_clean() -> None:
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["kafka"]
    commands = [step["run"] for step in workflow() if "run" in step]
    for tested, last in ((commands[-2], commands[-1]), (job["script"][-1], job["after_script"][0])):
        assert "pytest --ebbtide-require --junitxml=junit.xml" in tested
        assert last == ".ebbtide/.venv/bin/ebbtide clean"
    assert workflow()[-2]["if"] == "always()"
