"""The records of all modules in this folder are reconciled in the same jobs: planning these takes Spark far longer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from reconcile_together import Together, reconcile_together

from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record


@pytest.fixture(scope="session")
def together(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Mapping[str, Together]:
    """By module, what its `RECORDS` made and what was found in them."""
    here = Path(__file__).parent
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path.parent == here]
    asked = {item.module.__name__: item.module.RECORDS for item in items if hasattr(item.module, "RECORDS")}
    return reconcile_together(spark, tmp_path_factory.mktemp("together"), asked)


@pytest.fixture
def found(together: Mapping[str, Together], request: pytest.FixtureRequest) -> Mapping[Any, Reconciliation]:
    """What was found in each record of the module."""
    return together[request.module.__name__].found


@pytest.fixture
def made(together: Mapping[str, Together], request: pytest.FixtureRequest) -> Mapping[Any, Record]:
    """Each record of the module."""
    return together[request.module.__name__].made
