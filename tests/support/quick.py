"""Parameters of which `make test` tries a few, and `make test-all` all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def quick_first(values: Sequence[Any], quick: int = 1) -> list[Any]:
    """Return the values as parameters; those behind the first `quick` ones are marked slow.

    A tuple has the values of several parameters.
    """
    rest = (value if isinstance(value, tuple) else (value,) for value in values[quick:])
    return [*values[:quick], *(pytest.param(*value, marks=pytest.mark.slow) for value in rest)]
