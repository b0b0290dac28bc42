"""The hooks and fixtures of the pytest plugin.

They import Ebbtide only when a test uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ebbtide.pytest_plugin.judgement import failure_message, is_slip, one_line_summary, report_properties, where_to_look
from ebbtide.pytest_plugin.markers import (
    MARKER_LINES,
    WrongMarker,
    chaos_of,
    describe_misspelt_markers,
    expected_of,
    needs_of,
    place_of_marker,
    refuse_unused_chaos,
    releases_in,
    scenario_in,
    scenario_of,
)
from ebbtide.pytest_plugin.run_record import CommandFailed
from ebbtide.pytest_plugin.session import WORKER_KEPT, JudgedTest, Plugin, call_or_fail, fitted, uses_clusters
from ebbtide.pytest_plugin.settings import WORKER_SEED, add_options, read_settings
from ebbtide.pytest_plugin.watching import Watch, describe_unknown_settings, start_watch

if TYPE_CHECKING:
    from ebbtide.pytest_plugin.kafka_cluster import Chaos, KafkaCluster
    from ebbtide.pytest_plugin.run_record import RunRecord
    from ebbtide.pytest_plugin.runner import Lease

PLUGIN = pytest.StashKey[Plugin]()
_JUDGED = pytest.StashKey[JudgedTest]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the command line and of the ini file."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that --strict-markers knows them, and read the options."""
    for line in MARKER_LINES:
        config.addinivalue_line("markers", line)
    config.stash[PLUGIN] = Plugin(config, read_settings(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the session kept."""
    plugin = config.stash.get(PLUGIN, None)
    if plugin is not None:
        plugin.runner.end_session()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print release and seed, so that a session can be repeated."""
    from ebbtide.folding import folded_lines

    return folded_lines([config.stash[PLUGIN].settings.header()])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a new worker of pytest-xdist the seed that the header shows."""
    node.workerinput[WORKER_SEED] = node.config.stash[PLUGIN].settings.seed


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note the cluster that a worker of pytest-xdist kept."""
    kept = getattr(node, "workeroutput", {}).get(WORKER_KEPT)
    if kept is not None:
        node.config.stash[PLUGIN].kept_by_workers.append(kept)


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Print what this host lacks for these tests.

    Also says if no test replays the record.
    """
    from ebbtide.folding import folded_lines

    return folded_lines([*_unused_replay(config.stash[PLUGIN], items), *_lacking_abilities(config, items)])


def _unused_replay(plugin: Plugin, items: Sequence[pytest.Item]) -> list[str]:
    scenario = plugin.settings.scenario
    try:
        scenarios = [marked for item in items if (marked := scenario_of(item)) is not None]
    except WrongMarker:  # of a test that pytest_generate_tests does not make: reported before it runs
        return []
    if scenario is None or any(plugin.replays(marked.name) for marked in scenarios):
        return []
    return [f"ebbtide: no test here runs the recorded scenario {scenario}, so only its release and seed are used"]


def _lacking_abilities(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    if config.option.collectonly:  # the check takes seconds
        return []
    if not any(uses_clusters(item) or item.get_closest_marker("needs") for item in items):
        return []
    try:
        abilities = config.stash[PLUGIN].abilities()
    except CommandFailed as error:
        return [f"ebbtide: cannot find out what this host can do: {error}"]
    return [
        f"ebbtide: not possible on this host: {', '.join(one.disables)} ({one.name}: {one.lacking})"
        for one in abilities
        if one.lacking is not None and one.disables
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each release that its marker or its scenario names."""
    try:
        releases = _releases(metafunc.config.stash[PLUGIN], metafunc.definition)
    except WrongMarker:  # an error here would end the whole file: pytest_runtest_setup reports it for this test alone
        return
    if releases:
        if "kafka_version" not in metafunc.fixturenames:
            metafunc.fixturenames.append("kafka_version")
        metafunc.parametrize("kafka_version", releases, indirect=True, scope="session")


def _releases(plugin: Plugin, test: pytest.Item) -> tuple[str, ...]:
    settings = plugin.settings
    scenario = test.get_closest_marker("scenario")
    marked = scenario_in(scenario) if scenario is not None else None
    if marked is not None and plugin.replays(marked.name):
        return (str(settings.kafka),)
    versions = test.get_closest_marker("kafka")
    if versions is not None:
        return releases_in(versions)
    if marked is None:
        return ()
    if marked.kafka or settings.kafka is not None:
        return marked.kafka or (str(settings.kafka),)
    from ebbtide.errors import EbbtideError
    from ebbtide.scenario import catalogue

    try:
        return catalogue.find(marked.name).kafka
    except EbbtideError as error:
        raise WrongMarker("scenario", error.render()) from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that cannot work, and skip one that this host cannot run."""
    plugin = item.config.stash[PLUGIN]
    if uses_clusters(item):
        call_or_fail(plugin.turn.take)
    try:
        scenario_of(item)
        _releases(plugin, item)
        expected_of(item)
        needs = needs_of(item)
        lacking = {need: why for need in needs if (why := plugin.why_lacking(need)) is not None}
        if not lacking:
            plugin.refuse_unpublished(item)
    except WrongMarker as error:
        raise pytest.fail.Exception(fitted(item.config, error.in_file_of(item)), pytrace=False) from None
    except CommandFailed as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if lacking:
        reason = "; ".join(f"needs {need}: {why}" for need, why in lacking.items())
        if plugin.settings.require:
            pytest.fail(f"{reason} (a failure, not a skip, because of --ebbtide-require)", pytrace=False)
        # With a marker pytest shows the place of the test, not of this line.
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Give the turn back after the test and its teardown."""
    try:
        return (yield)
    finally:
        item.config.stash[PLUGIN].turn.give_back()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Judge the run after the test; a contradicted or inconclusive run fails the test."""
    try:
        result = yield
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception, pytest.skip.Exception):
        raise
    except BaseException as error:
        item.config.stash[PLUGIN].note_failure(item)
        _add_verdict_section(item, error)
        raise
    failure = _judge_run(item)
    if failure is not None:
        item.config.stash[PLUGIN].note_failure(item)
        pytest.fail(fitted(item.config, failure), pytrace=False)
    if (judged := item.stash.get(_JUDGED, None)) is not None and judged.run is not None:
        if judged.run.own and item.config.get_verbosity() > 0:
            item.config.stash[PLUGIN].say(judged.run.own)
        # Shown with -rP and -rA.
        shown = "\n".join([one_line_summary(judged.run), *where_to_look(judged.run, has_failed=False)])
        item.add_report_section("call", "ebbtide", fitted(item.config, shown))
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print which cluster was kept, and how to reach and stop it."""
    plugin = config.stash[PLUGIN]
    for kept in [*([] if plugin.kept is None else [plugin.kept]), *plugin.kept_by_workers]:
        reached = f"ebbtide cluster exec --cluster {kept} -- CMD"
        terminalreporter.write_line(f"ebbtide: the cluster {kept} is still running: {reached}")
        terminalreporter.write_line(f"ebbtide: to stop it: ebbtide cluster down {kept}")


def _judge_run(item: pytest.Item) -> str | None:
    """Judge the run of a finished test; return why the test fails, or None."""
    judged = item.stash.get(_JUDGED, None)
    try:
        expected = expected_of(item)
        if judged is None:
            if expected is not None:
                raise WrongMarker(
                    "expected_violation", "expected_violation needs @pytest.mark.scenario or the chaos fixture"
                )
            refuse_unused_chaos(item)
            return None
        run = judged.run or (judged.finish() if judged.finish is not None else None)
    except WrongMarker as error:
        return error.in_file_of(item)
    except CommandFailed as error:
        return error.full_message()
    if run is None:
        return None
    judged.run = run
    item.user_properties.extend(report_properties(run))
    return failure_message(run, expected)


def _add_verdict_section(item: pytest.Item, error: BaseException) -> None:
    """Add the verdict to the report of a test that failed by itself; a slip costs no judging."""
    judged = item.stash.get(_JUDGED, None)
    if judged is None:
        return
    if is_slip(error) and judged.run is None:
        judged.finish = None
        item.add_report_section("call", "ebbtide", "the test itself is wrong, so its run was not judged")
        return
    failure = _judge_run(item)
    run = item.stash[_JUDGED].run
    lines = [failure] if failure is not None else [_passed(run), *(where_to_look(run) if run else ())]
    item.add_report_section("call", "ebbtide", fitted(item.config, "\n".join(lines)))


def _passed(run: RunRecord | None) -> str:
    """Return the sentence on a run that its test may not blame."""
    if run is None or run.verdict.prediction == "made":
        return "the run is as predicted"
    return "nothing was predicted for the run, and nothing in it violates the protocol"


@pytest.fixture(scope="session")
def kafka_version(request: pytest.FixtureRequest) -> str:
    """The Kafka release of a marker, of --ebbtide-kafka, or the newest known."""
    from ebbtide.releases.builds import names_jars
    from ebbtide.releases.known_releases import KNOWN

    plugin = request.config.stash[PLUGIN]
    kafka: str = getattr(request, "param", None) or plugin.settings.kafka or KNOWN[-1].version
    return call_or_fail(lambda: plugin.runner.fetch(kafka)) if names_jars(kafka) else kafka


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest, kafka_version: str) -> Iterator[KafkaCluster]:
    """A plain cluster of three brokers, shared by all tests of a release.

    It lives as long as the test session.
    """
    plugin = request.config.stash[PLUGIN]
    # Here and below too: pytest_runtest_setup does not see what getfixturevalue asks for.
    call_or_fail(plugin.turn.take)
    cluster, lease = call_or_fail(
        lambda: plugin.runner.open_cluster(kafka_version, plugin.settings, keep=plugin.keeps_next_cluster)
    )
    yield cluster
    call_or_fail(lambda: plugin.release_cluster(lease, failed=plugin.shared_failed))


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_version: str) -> Iterator[Chaos]:
    """The test's own cluster with producers and consumers; its record is judged after the test."""
    plugin, item = request.config.stash[PLUGIN], request.node
    call_or_fail(plugin.turn.take)
    try:
        (parts, publish), expected = chaos_of(item), expected_of(item)
    except WrongMarker as error:
        raise pytest.fail.Exception(fitted(item.config, error.in_file_of(item)), pytrace=False) from None
    from ebbtide.pytest_plugin.chaos_scenario import chaos_scenario

    marker = place_of_marker(item, "chaos")
    scenario = call_or_fail(lambda: chaos_scenario(parts, kafka_version, expected, marker, publish=bool(publish)))
    cluster, lease = call_or_fail(
        lambda: plugin.runner.open_chaos(
            scenario, kafka_version, plugin.settings, keep=plugin.keeps_next_cluster, marker=marker, publish=publish
        )
    )
    judged = item.stash[_JUDGED] = JudgedTest()
    judged.finish = lambda: plugin.runner.judge_chaos(cluster, lease)
    with cluster.environment():
        yield cluster
    call_or_fail(lambda: plugin.release_cluster(lease, failed=item.nodeid in plugin.failed))


@pytest.fixture
def kafka_watch(request: pytest.FixtureRequest) -> Iterator[Callable[..., Watch]]:
    """A function that starts a watch of a cluster which the test brought up itself.

    Its record is judged after the test.
    """
    plugin, item = request.config.stash[PLUGIN], request.node
    started: list[Watch] = []

    def start(bootstrap: str, **settings: Any) -> Watch:
        if started:
            pytest.fail("a test has one watch", pytrace=False)
        if (unknown := describe_unknown_settings(settings)) is not None:
            pytest.fail(unknown, pytrace=False)
        runs = plugin.settings.runs
        watch = call_or_fail(lambda: start_watch(bootstrap, **{"runs": runs, "say": plugin.say, **settings}))
        started.append(watch)
        judged = item.stash[_JUDGED] = JudgedTest()
        judged.finish = watch.finish
        return watch

    yield start
    for watch in started:
        watch.close()


@pytest.fixture
def run_record(request: pytest.FixtureRequest, kafka_version: str) -> Iterator[RunRecord]:
    """The judged run of the test's scenario."""
    plugin, item = request.config.stash[PLUGIN], request.node
    call_or_fail(plugin.turn.take)
    mark = item.get_closest_marker("scenario")
    if mark is None:
        pytest.fail(
            "run_record needs @pytest.mark.scenario; the record of chaos is only judged after the test"
            f"{describe_misspelt_markers(item)}",
            pytrace=False,
        )
    marked, settings = scenario_in(mark), plugin.settings
    record = settings.replay if plugin.replays(marked.name) else None
    lease: Lease | None = None
    if record is not None:
        run = call_or_fail(lambda: plugin.runner.replay(record, settings))
    else:
        run, lease = call_or_fail(
            lambda: plugin.runner.run_scenario(marked.name, kafka_version, settings, keep=plugin.keeps_next_cluster),
            lambda: place_of_marker(item, "scenario"),
        )
    judged = item.stash[_JUDGED] = JudgedTest()
    judged.run = run
    yield run
    if lease is not None:
        call_or_fail(lambda: plugin.release_cluster(lease, failed=item.nodeid in plugin.failed))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """The first topic of `chaos`, else a new topic on `kafka_cluster`.

    A new topic is deleted after the test.
    """
    if "chaos" in request.fixturenames:
        yield request.getfixturevalue("chaos").topics[0]
        return
    cluster: KafkaCluster = request.getfixturevalue("kafka_cluster")
    name = f"test-{os.urandom(4).hex()}"
    call_or_fail(lambda: cluster.create_topic(name))
    yield name
    call_or_fail(lambda: cluster.delete_topic(topic=name))


@pytest.fixture(autouse=True)
def _ebbtide_scenario(request: pytest.FixtureRequest) -> None:
    """Run the scenario of a test that does not use `run_record`."""
    if request.node.get_closest_marker("scenario") is not None:
        request.getfixturevalue("run_record")
