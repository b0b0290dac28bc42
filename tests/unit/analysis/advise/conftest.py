"""What the tests of the advice share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from analysis.advise import answers


@pytest.fixture(scope="package", autouse=True)
def _each_question_is_searched_once() -> Iterator[None]:
    """The same few events are asked about in most tests, and a search takes up to a second.

    A piece of advice itself searches no question twice, by the same key.
    """
    found: dict[Any, Any] = {}
    search = answers.search_event

    def search_once(release: Any, bounds: Any, acks: Any, states_max: int) -> Any:
        key = (release.variant, tuple(sorted(release.features.items())), bounds, acks, states_max)
        if key not in found:
            found[key] = search(release, bounds, acks, states_max)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "search_event", search_once)
        yield
