"""An unknown key or setting lists what is allowed in its place, and no more."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.client_libraries import LIBRARIES, ClientLibrary
from ebbtide.scenario.parse import parse


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml")
    return {str(one.where): one.render() for one in caught.value.problems}


def test_an_unknown_key_of_a_step_lists_the_keys_of_its_kind() -> None:
    step = '\n[[steps]]\nstep = "{0}"\ntarget = "broker(1)"\ndelai = "1s"\n'
    known = problems_of(catalogue.text_of("healthy") + step.format("kill"))["steps[1].delai"]
    assert "allowed: deadline_s, name, step, target, trigger\n" in known + "\n"
    slow = problems_of(catalogue.text_of("healthy") + step.format("slow-disk"))["steps[1].delai"]
    assert "delay, directory, name, period, step, target, trigger (did you mean 'delay'?)" in slow
    unknown = problems_of(catalogue.text_of("healthy") + step.format("kilt"))["steps[1].delai"]
    assert "allowed: delay, " in unknown
    assert "in all), see docs/scenario-steps.md" in unknown


@pytest.mark.parametrize(("client", "near"), [("java", "retries"), ("librdkafka", "batch.size")])
def test_an_unknown_setting_of_a_client_lists_all_that_may_be_set(client: ClientLibrary, near: str) -> None:
    producer = f'[[producers]]\nclient = "{client}"\nproperties = {{ "{near}s" = "1" }}\n'
    told = problems_of(catalogue.text_of("healthy").replace("[[producers]]\n", producer, 1))["producers[0].properties"]
    assert ", ".join(sorted(LIBRARIES[client].properties)) + f" (did you mean '{near}'?)" in told


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_setting_that_is_a_key_of_the_producer_points_to_the_key(client: ClientLibrary) -> None:
    producer = f'[[producers]]\nclient = "{client}"\nproperties = {{ "linger.ms" = "1" }}\n'
    told = problems_of(catalogue.text_of("healthy").replace("[[producers]]\n", producer, 1))["producers[0].properties"]
    assert "a setting that is a key of the producer itself" in told
    assert "allowed: linger_ms = ..., beside properties" in told


def test_one_text_in_place_of_a_list_is_shown_as_a_list() -> None:
    told = problems_of('kafka = "4.3.1"\n')["kafka"]
    assert told.endswith('allowed: a list, such as ["4.3.1"]')
