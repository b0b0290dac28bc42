"""The plugin's options, each on the command line and in the ini file, and what a recorded run says in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ebbtide.command import COMMAND

RUNTIMES = ("auto", "docker", "local")

WORKER_SEED = "ebbtide_seed"
"""In the `workerinput` of a pytest-xdist worker: the seed that the header shows."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was asked for. `kafka` None: the scenario's own releases; for clusters the newest known.

    `command`: the words that start the command.
    `replay`: the record that is run again by tests of its scenario, whose name is `scenario`.
    """

    runs: Path
    seed: int
    runtime: str
    kafka: str | None
    require: bool
    keep_cluster: bool
    command: tuple[str, ...] = COMMAND
    replay: Path | None = None
    scenario: str | None = None


def add_options(parser: pytest.Parser) -> None:
    """Declare them."""
    group = parser.getgroup("ebbtide", "Ebbtide: Kafka under fault injection")
    for name, metavar, what in (
        ("runs", "DIR", "where run records go (default: runs)"),
        ("seed", "N", "draw what scenarios leave open from this (default: a new one)"),
        ("runtime", "RUNTIME", "auto, docker or local (default: auto)"),
        ("kafka", "RELEASE", "the release where no marker names one"),
        ("command", "COMMAND", "the ebbtide command of another environment (default: that of this one)"),
        ("replay", "RUN", "take release and seed from this record, and replay it for tests of its scenario"),
    ):
        group.addoption(f"--ebbtide-{name}", metavar=metavar, default=None, help=what)
        parser.addini(f"ebbtide_{name}", what, default="")
    for name, what in (
        ("require", "a test that this host cannot run is an error, not a skip"),
        ("keep-cluster", "leave the cluster of the first test that fails up"),
    ):
        group.addoption(f"--ebbtide-{name}", action="store_true", default=None, help=what)
        parser.addini(f"ebbtide_{name.replace('-', '_')}", what, type="bool", default=False)


def read_settings(config: pytest.Config) -> Settings:
    """Raises `pytest.UsageError`."""

    def given(name: str) -> str | None:
        word = config.getoption(f"ebbtide_{name}")
        return word if word is not None else config.getini(f"ebbtide_{name}") or None

    def refused(name: str, why: str) -> pytest.UsageError:
        where = f"ebbtide_{name}" if config.getoption(f"ebbtide_{name}") is None else f"--ebbtide-{name}"
        return pytest.UsageError(f"{where}: {why}")

    def switched(name: str) -> bool:
        word = config.getoption(f"ebbtide_{name}")
        try:
            return bool(config.getini(f"ebbtide_{name}") if word is None else word)
        except (pytest.UsageError, ValueError) as error:  # before pytest 9 the latter, and neither says of which key
            raise refused(name, f"{error}; allowed: true or false") from None

    runtime = given("runtime") or "auto"
    if runtime not in RUNTIMES:
        raise refused("runtime", f"{runtime!r} is none of {', '.join(RUNTIMES)}")
    seed = given("seed")
    if seed is not None and not seed.isdecimal():
        raise refused("seed", f"{seed!r} is no whole number")
    kafka = given("kafka")
    if kafka is not None and (why := no_release(kafka)) is not None:
        raise refused("kafka", why)
    settings = Settings(
        runs=_folder(config, "runs", given("runs") or "runs"),
        seed=_new_seed(config) if seed is None else int(seed),
        runtime=runtime,
        kafka=kafka,
        require=switched("require"),
        keep_cluster=switched("keep_cluster"),
        command=_command(given("command"), refused),
    )
    replay = given("replay")
    return settings if replay is None else _replaying(settings, _folder(config, "replay", replay))


def _command(given: str | None, refused: Callable[[str, str], pytest.UsageError]) -> tuple[str, ...]:
    import shlex
    import shutil

    if given is None:
        return COMMAND
    words = tuple(shlex.split(given))
    if not words or shutil.which(words[0]) is None:
        raise refused("command", f"{given!r} is no program that can be run; allowed: such as ~/.local/bin/ebbtide")
    return words


def no_release(kafka: str) -> str | None:
    """Why this is no release of Kafka that can be run; None: it may be one, or each test that needs it fails anyway."""
    from ebbtide.errors import UsageError
    from ebbtide.releases.known import parse_version

    try:
        parse_version(kafka)
    except UsageError as error:
        return error.render()
    return None


def _folder(config: pytest.Config, name: str, given: str) -> Path:
    """On the command line relative to the working folder, else to the project's."""
    if config.getoption(f"ebbtide_{name}") is not None:
        return Path(given).absolute()
    return config.rootpath / given


def _new_seed(config: pytest.Config) -> int:
    """A worker of pytest-xdist draws none: it has its controller's."""
    import secrets

    drawn: dict[str, int] = getattr(config, "workerinput", {})
    return drawn[WORKER_SEED] if WORKER_SEED in drawn else secrets.randbelow(2**31)


def _replaying(settings: Settings, record: Path) -> Settings:
    from dataclasses import replace

    from ebbtide.errors import EbbtideError
    from ebbtide.record.manifest import read_manifest

    try:
        manifest = read_manifest(record)
    except EbbtideError as error:
        raise pytest.UsageError(f"--ebbtide-replay: {error.render()}") from None
    return replace(
        settings,
        seed=settings.seed if manifest.seed is None else manifest.seed,
        kafka=manifest.kafka,
        replay=record,
        scenario=manifest.scenario,
    )
