"""The pytest plugin: hooks and fixtures. Nothing of Ebbtide is imported until a test uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ebbtide.pytest_plugin.judgement import complaint, facts, in_short, where_to_look
from ebbtide.pytest_plugin.markers import (
    LINES,
    WrongMarker,
    chaos_of,
    expected_of,
    misspelt,
    needs_of,
    releases_in,
    scenario_in,
    scenario_of,
)
from ebbtide.pytest_plugin.runner import Failed
from ebbtide.pytest_plugin.session import WORKER_KEPT, JudgedTest, Plugin, attempt, too_parallel, uses_clusters
from ebbtide.pytest_plugin.settings import WORKER_SEED, add_options, read_settings

if TYPE_CHECKING:
    from ebbtide.pytest_plugin.chaos import Chaos
    from ebbtide.pytest_plugin.kafka_cluster import KafkaCluster
    from ebbtide.pytest_plugin.run_record import RunRecord
    from ebbtide.pytest_plugin.runner import Lease

PLUGIN = pytest.StashKey[Plugin]()
_JUDGED = pytest.StashKey[JudgedTest]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line and of the ini file."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that --strict-markers knows them, and read the options."""
    for line in LINES:
        config.addinivalue_line("markers", line)
    config.stash[PLUGIN] = Plugin(config, read_settings(config))


def pytest_report_header(config: pytest.Config) -> str:
    """Release and seed, so that a session can be had again."""
    from importlib.metadata import version

    settings = config.stash[PLUGIN].settings
    parts = [
        f"Kafka {settings.kafka}" if settings.kafka is not None else "Kafka as marked",
        f"seed {settings.seed}",
        f"runtime {settings.runtime}",
        f"records in {settings.runs}",
    ]
    if settings.replay is not None:
        parts.append(f"replaying {settings.replay}" + (" (not left up)" if settings.keep_cluster else ""))
    return f"ebbtide {version('ebbtide')}: {', '.join(parts)}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist starts a worker: its seed is the one that the header shows."""
    node.workerinput[WORKER_SEED] = node.config.stash[PLUGIN].settings.seed


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended, and says what it left up, unless it crashed."""
    kept = getattr(node, "workeroutput", {}).get(WORKER_KEPT)
    if kept is not None:
        node.config.stash[PLUGIN].kept = kept


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """What this host cannot do, where a test might ask for it; and that nothing is replayed, where it is so."""
    return [*_idle_replay(config.stash[PLUGIN], items), *_lacking(config, items)]


def _idle_replay(plugin: Plugin, items: Sequence[pytest.Item]) -> list[str]:
    scenario = plugin.settings.scenario
    try:
        wishes = [wish for item in items if (wish := scenario_of(item)) is not None]
    except WrongMarker:  # of a test that is not made by pytest_generate_tests: told before it runs
        return []
    if scenario is None or any(plugin.replays(wish.name) for wish in wishes):
        return []
    return [f"ebbtide: no test here has the recorded scenario {scenario}: only release and seed are the record's"]


def _lacking(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    if not any(uses_clusters(item) or item.get_closest_marker("needs") for item in items):
        return []
    try:
        abilities = config.stash[PLUGIN].abilities()
    except Failed as error:
        return [f"ebbtide: what this host can do is unknown: {error}"]
    return [
        f"ebbtide: not on this host: {', '.join(one.disables)} ({one.name}: {one.lacking})"
        for one in abilities
        if one.lacking is not None and one.disables
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once per release, where a marker names some, or its scenario does."""
    try:
        releases = _releases(metafunc)
    except WrongMarker as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    if releases:
        if "kafka_version" not in metafunc.fixturenames:
            metafunc.fixturenames.append("kafka_version")
        metafunc.parametrize("kafka_version", releases, indirect=True, scope="session")


def _releases(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    plugin = metafunc.config.stash[PLUGIN]
    settings = plugin.settings
    scenario = metafunc.definition.get_closest_marker("scenario")
    wish = scenario_in(scenario) if scenario is not None else None
    if wish is not None and plugin.replays(wish.name):
        return (str(settings.kafka),)
    versions = metafunc.definition.get_closest_marker("kafka")
    if versions is not None:
        return releases_in(versions)
    if wish is None:
        return ()
    if wish.kafka or settings.kafka is not None:
        return wish.kafka or (str(settings.kafka),)
    from ebbtide.errors import EbbtideError
    from ebbtide.scenario import catalogue

    try:
        return catalogue.find(wish.name).kafka
    except EbbtideError as error:
        raise WrongMarker(error.render()) from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse what cannot work, and skip what this host cannot do."""
    plugin = item.config.stash[PLUGIN]
    if uses_clusters(item):
        _refuse(too_parallel(item.config))
    try:
        scenario_of(item)
        expected_of(item)
        needs = needs_of(item)
        lacking = {need: why for need in needs if (why := plugin.lacking(need)) is not None}
    except (WrongMarker, Failed) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if lacking:
        reason = "; ".join(f"needs {need}: {why}" for need, why in lacking.items())
        if plugin.settings.require:
            pytest.fail(f"{reason} (an error, not a skip: --ebbtide-require)", pytrace=False)
        # pytest then shows where the test is, not where this line is.
        item.add_marker(pytest.mark.skip(reason=reason))


def _refuse(why: str | None) -> None:
    if why is not None:
        pytest.fail(why, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """After the test, the verdict: a test whose run is contradicted or inconclusive fails, whatever it asserted."""
    try:
        result = yield
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception, pytest.skip.Exception):
        raise
    except BaseException:
        item.config.stash[PLUGIN].note_failure(item)
        _tell_beside(item)
        raise
    against = _conclude(item)
    if against is not None:
        item.config.stash[PLUGIN].note_failure(item)
        pytest.fail(against, pytrace=False)
    if (judged := item.stash.get(_JUDGED, None)) is not None and judged.run is not None:
        # Shown with -rP and -rA.
        item.add_report_section("call", "ebbtide", "\n".join([in_short(judged.run), *where_to_look(judged.run)]))
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The cluster that was left up, and how to be rid of it."""
    kept = config.stash[PLUGIN].kept
    if kept is not None:
        terminalreporter.write_line(f"ebbtide: the cluster {kept} is left up: ebbtide cluster status")
        terminalreporter.write_line(f"ebbtide: when you have seen enough: ebbtide cluster down {kept}")


def _conclude(item: pytest.Item) -> str | None:
    """Why the test fails though it ran to its end; None: it does not."""
    judged = item.stash.get(_JUDGED, None)
    try:
        expected = expected_of(item)
        if judged is None:
            return None if expected is None else "expected_violation says nothing without a scenario or chaos"
        run = judged.run or (judged.finish() if judged.finish is not None else None)
    except WrongMarker as error:
        return str(error)
    except Failed as error:
        return error.told()
    if run is None:
        return None
    judged.run = run
    item.user_properties.extend(facts(run))
    return complaint(run, expected)


def _tell_beside(item: pytest.Item) -> None:
    """The verdict of a run whose test failed by itself stands in a section of the report."""
    if item.stash.get(_JUDGED, None) is None:
        return
    against = _conclude(item)
    run = item.stash[_JUDGED].run
    lines = [against] if against is not None else ["the run is as predicted", *(where_to_look(run) if run else ())]
    item.add_report_section("call", "ebbtide", "\n".join(lines))


@pytest.fixture(scope="session")
def kafka_version(request: pytest.FixtureRequest) -> str:
    """The Kafka release: from a marker, from --ebbtide-kafka, or the newest known."""
    marked = getattr(request, "param", None)
    if marked is not None:
        return str(marked)
    asked = request.config.stash[PLUGIN].settings.kafka
    if asked is not None:
        return asked
    from ebbtide.releases.known import KNOWN

    return KNOWN[-1].version


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest, kafka_version: str) -> Iterator[KafkaCluster]:
    """A plain cluster of three brokers, the same for every test of the session that uses this release."""
    # Also here and below: what getfixturevalue asks for is not seen before.
    _refuse(too_parallel(request.config))
    plugin = request.config.stash[PLUGIN]
    cluster, lease = attempt(lambda: plugin.runner.open_cluster(kafka_version, plugin.settings, keep=plugin.keeping))
    yield cluster
    attempt(lambda: plugin.ends(lease, failed=plugin.shared_failed))


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_version: str) -> Iterator[Chaos]:
    """A cluster of the test's own with producers and consumers; after the test its record is judged."""
    _refuse(too_parallel(request.config))
    plugin, item = request.config.stash[PLUGIN], request.node
    try:
        parts, expected = chaos_of(item), expected_of(item)
    except WrongMarker as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    cluster, lease = attempt(
        lambda: plugin.runner.open_chaos(parts, kafka_version, expected, plugin.settings, keep=plugin.keeping)
    )
    judged = item.stash[_JUDGED] = JudgedTest()
    judged.finish = lambda: plugin.runner.judge_chaos(cluster, lease)
    yield cluster
    attempt(lambda: plugin.ends(lease, failed=item.nodeid in plugin.failed))


@pytest.fixture
def run_record(request: pytest.FixtureRequest, kafka_version: str) -> Iterator[RunRecord]:
    """The judged run of the test's scenario."""
    _refuse(too_parallel(request.config))
    plugin, item = request.config.stash[PLUGIN], request.node
    mark = item.get_closest_marker("scenario")
    if mark is None:
        pytest.fail(
            f"run_record needs @pytest.mark.scenario; the record of chaos is judged after the test{misspelt(item)}",
            pytrace=False,
        )
    wish, settings = scenario_in(mark), plugin.settings
    record = settings.replay if plugin.replays(wish.name) else None
    lease: Lease | None = None
    if record is not None:
        run = attempt(lambda: plugin.runner.replay(record, settings))
    else:
        run, lease = attempt(
            lambda: plugin.runner.run_scenario(wish.name, kafka_version, settings, keep=plugin.keeping)
        )
    judged = item.stash[_JUDGED] = JudgedTest()
    judged.run = run
    yield run
    if lease is not None:
        attempt(lambda: plugin.ends(lease, failed=item.nodeid in plugin.failed))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """The first topic of the test's chaos; else a new one on the session's cluster, deleted after the test."""
    if "chaos" in request.fixturenames:
        yield request.getfixturevalue("chaos").topics[0]
        return
    cluster: KafkaCluster = request.getfixturevalue("kafka_cluster")
    name = f"test-{os.urandom(4).hex()}"
    attempt(lambda: cluster.create_topic(name))
    yield name
    attempt(lambda: cluster.delete_topic(topic=name))


@pytest.fixture(autouse=True)
def _ebbtide_scenario(request: pytest.FixtureRequest) -> None:
    """Runs the scenario of a test that does not ask for its record."""
    if request.node.get_closest_marker("scenario") is not None:
        request.getfixturevalue("run_record")
