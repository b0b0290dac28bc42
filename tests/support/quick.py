"""Parameters of which `make test` tries a few, and `make test-all` all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def quick_first(values: Sequence[Any], quick: int = 1) -> list[Any]:
    """Return the values as parameters; those behind the first `quick` ones are marked slow."""
    return [*values[:quick], *(pytest.param(value, marks=pytest.mark.slow) for value in values[quick:])]
