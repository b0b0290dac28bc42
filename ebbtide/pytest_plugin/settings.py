"""Reads the plugin's options: command line, ini file, and a recorded run."""

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
    """The plugin's options.

    `kafka` None means the scenario's own releases, or for clusters the newest known release. `command` is the command
    line that starts Ebbtide. Tests of the scenario `scenario` repeat the record `replay`.
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
    rules: tuple[Path, ...] = ()

    def header(self) -> str:
        """Return the line from which a session can be repeated."""
        from importlib.metadata import version

        from ebbtide.shown_text import shown_path

        run = f"Kafka {self.kafka or 'as marked'}, seed {self.seed}, runtime {self.runtime}"
        line = f"ebbtide {version('ebbtide')}: {run}, records in {shown_path(self.runs)}"
        kept = " (no cluster is kept)" if self.keep_cluster else ""
        return line if self.replay is None else f"{line}, replaying {shown_path(self.replay)}{kept}"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("ebbtide", "Ebbtide: Kafka under fault injection")
    for name, metavar, what in (
        ("runs", "DIR", "the folder for run records (default: runs)"),
        ("seed", "N", "the seed of all random choices (default: a new one)"),
        ("runtime", "RUNTIME", "where the nodes run: auto, docker or local (default: auto)"),
        ("kafka", "RELEASE", "the release, or the jars of a build, for tests without a marker that names one"),
        ("command", "COMMAND", "the ebbtide command to start (default: the one of this environment)"),
        ("replay", "RUN", "use the release and seed of this record, and replay it for tests of its scenario"),
    ):
        group.addoption(f"--ebbtide-{name}", metavar=metavar, default=None, help=what)
        parser.addini(f"ebbtide_{name}", what, default="")
    what = "judge with the clause in this Python file, too, which runs as you (may be given several times)"
    group.addoption("--ebbtide-rule", metavar="FILE", action="append", default=None, help=what)
    parser.addini("ebbtide_rule", what, type="linelist", default=[])
    for name, what in (
        ("require", "fail the tests that this host cannot run, instead of skipping them"),
        ("keep-cluster", "keep the cluster of the first test that fails running"),
    ):
        group.addoption(f"--ebbtide-{name}", action="store_true", default=None, help=what)
        parser.addini(f"ebbtide_{name.replace('-', '_')}", what, type="bool", default=False)


def read_settings(config: pytest.Config) -> Settings:
    """Read the options. Raises `pytest.UsageError`."""

    def option(name: str) -> str | None:
        word = config.getoption(f"ebbtide_{name}")
        return word if word is not None else config.getini(f"ebbtide_{name}") or None

    def wrong_option(name: str, why: str) -> pytest.UsageError:
        where = f"ebbtide_{name}" if config.getoption(f"ebbtide_{name}") is None else f"--ebbtide-{name}"
        return pytest.UsageError(f"{where}: {why}")

    def flag(name: str) -> bool:
        word = config.getoption(f"ebbtide_{name}")
        try:
            return bool(config.getini(f"ebbtide_{name}") if word is None else word)
        except (pytest.UsageError, ValueError) as error:  # before pytest 9 ValueError; neither names the key
            raise wrong_option(name, f"{error}; allowed: true or false") from None

    runtime = option("runtime") or "auto"
    if runtime not in RUNTIMES:
        raise wrong_option("runtime", f"{runtime!r} is not a runtime; allowed: {', '.join(RUNTIMES)}")
    seed = option("seed")
    if seed is not None and not seed.isdecimal():
        raise wrong_option("seed", f"{seed!r} is not a whole number")
    kafka = option("kafka")
    if kafka is not None and (why := wrong_release(kafka)) is not None:
        raise wrong_option("kafka", why)
    settings = Settings(
        runs=_folder(config, "runs", option("runs") or "runs"),
        seed=_new_seed(config) if seed is None else int(seed),
        runtime=runtime,
        kafka=kafka,
        require=flag("require"),
        keep_cluster=flag("keep_cluster"),
        command=_command(option("command"), wrong_option),
        rules=rule_files(config),
    )
    replay = option("replay")
    return settings if replay is None else _settings_of_replay(settings, _folder(config, "replay", replay))


def rule_files(config: pytest.Config) -> tuple[Path, ...]:
    """Return the files with rules of the user. Raises `pytest.UsageError` for one that is no file."""
    words: list[str] = config.getoption("ebbtide_rule") or config.getini("ebbtide_rule")
    paths = tuple(_folder(config, "rule", word) for word in words)
    if (wrong := next((path for path in paths if not path.is_file()), None)) is not None:
        raise pytest.UsageError(f"--ebbtide-rule: {wrong} is not a file")
    return paths


def _command(text: str | None, wrong_option: Callable[[str, str], pytest.UsageError]) -> tuple[str, ...]:
    import shlex
    import shutil

    if text is None:
        return COMMAND
    words = tuple(shlex.split(text))
    if not words or shutil.which(words[0]) is None:
        raise wrong_option("command", f"{text!r} is not a program; allowed: a command such as ~/.local/bin/ebbtide")
    return words


def wrong_release(kafka: str) -> str | None:
    """Return why this text cannot be a Kafka release, nor say where jars are; None if it may be one."""
    from ebbtide.errors import UsageError
    from ebbtide.releases.builds import names_jars
    from ebbtide.releases.known_releases import parse_version

    try:
        if not names_jars(kafka):
            parse_version(kafka)
    except UsageError as error:
        return error.render()
    return None


def _folder(config: pytest.Config, name: str, text: str) -> Path:
    """Return the absolute path of a folder or file.

    A typed folder is relative to the working folder, another one to the project's folder.
    """
    if config.getoption(f"ebbtide_{name}") is not None:
        return Path(text).absolute()
    return config.rootpath / text


def _new_seed(config: pytest.Config) -> int:
    """Draw a seed; a worker of pytest-xdist uses the seed of its controller."""
    import secrets

    drawn: dict[str, int] = getattr(config, "workerinput", {})
    return drawn[WORKER_SEED] if WORKER_SEED in drawn else secrets.randbelow(2**31)


def _settings_of_replay(settings: Settings, record: Path) -> Settings:
    from dataclasses import replace

    from ebbtide.errors import EbbtideError
    from ebbtide.record.files import RecordFolder
    from ebbtide.record.manifest import read_manifest

    try:
        manifest = read_manifest(RecordFolder(record))
    except EbbtideError as error:
        raise pytest.UsageError(f"--ebbtide-replay: {error.render()}") from None
    return replace(
        settings,
        seed=settings.seed if manifest.seed is None else manifest.seed,
        kafka=manifest.kafka_name,
        replay=record,
        scenario=manifest.scenario,
    )
