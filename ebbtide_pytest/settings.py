"""The plugin's options, each on the command line and in the ini file, and what a recorded run says in their place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

RUNTIMES = ("auto", "docker", "local")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was asked for. `kafka` None: the scenario's own releases; for clusters the newest known.

    `scenario`: the replayed record's scenario, name and file.
    """

    runs: Path
    seed: int
    runtime: str
    kafka: str | None
    require: bool
    keep_cluster: bool
    replay: Path | None = None
    scenario: tuple[str, Path] | None = None


def add_options(parser: pytest.Parser) -> None:
    """Declare them."""
    group = parser.getgroup("ebbtide", "Ebbtide: Kafka under fault injection")
    for name, metavar, what in (
        ("runs", "DIR", "where run records go (default: runs)"),
        ("seed", "N", "draw what scenarios leave open from this (default: a new one)"),
        ("runtime", "RUNTIME", "auto, docker or local (default: auto)"),
        ("kafka", "RELEASE", "the release where no marker names one"),
    ):
        group.addoption(f"--ebbtide-{name}", metavar=metavar, default=None, help=what)
        parser.addini(f"ebbtide_{name}", what, default="")
    what = "a test that this host cannot run is an error, not a skip"
    group.addoption("--ebbtide-require", action="store_true", default=None, help=what)
    parser.addini("ebbtide_require", what, type="bool", default=False)
    group.addoption(
        "--ebbtide-replay", metavar="RUN", default=None, help="take release, seed and scenario from this recorded run"
    )
    group.addoption(
        "--ebbtide-keep-cluster", action="store_true", help="leave the cluster of the first test that fails up"
    )


def read_settings(config: pytest.Config) -> Settings:
    """Raises `pytest.UsageError`."""

    def given(name: str) -> str | None:
        word = config.getoption(f"ebbtide_{name}")
        return word if word is not None else config.getini(f"ebbtide_{name}") or None

    runtime = given("runtime") or "auto"
    if runtime not in RUNTIMES:
        raise pytest.UsageError(f"--ebbtide-runtime: {runtime!r} is none of {', '.join(RUNTIMES)}")
    seed = given("seed")
    if seed is not None and not seed.isdigit():
        raise pytest.UsageError(f"--ebbtide-seed: {seed!r} is no whole number")
    require = config.getoption("ebbtide_require")
    settings = Settings(
        runs=_folder(config, given("runs")),
        seed=_new_seed() if seed is None else int(seed),
        runtime=runtime,
        kafka=given("kafka"),
        require=bool(config.getini("ebbtide_require") if require is None else require),
        keep_cluster=bool(config.getoption("ebbtide_keep_cluster")),
    )
    replay = config.getoption("ebbtide_replay")
    return settings if replay is None else _replaying(settings, Path(replay))


def _folder(config: pytest.Config, given: str | None) -> Path:
    """On the command line relative to the working folder, else to the project's."""
    if config.getoption("ebbtide_runs") is not None:
        return Path(str(given)).absolute()
    return config.rootpath / (given or "runs")


def _new_seed() -> int:
    import secrets

    return secrets.randbelow(2**31)


def _replaying(settings: Settings, record: Path) -> Settings:
    from dataclasses import replace

    from harness.errors import EbbtideError
    from harness.record.manifest import read_manifest
    from harness.scenario.write import SCENARIO

    try:
        manifest = read_manifest(record)
    except EbbtideError as error:
        raise pytest.UsageError(f"--ebbtide-replay: {error.render()}") from None
    return replace(
        settings,
        seed=settings.seed if manifest.seed is None else manifest.seed,
        kafka=manifest.kafka,
        replay=record.absolute(),
        scenario=(manifest.scenario, record.absolute() / SCENARIO),
    )
