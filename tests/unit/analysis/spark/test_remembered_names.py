"""Java classes and methods are looked up once per session."""

from __future__ import annotations

import pytest
from py4j.java_gateway import GatewayClient, java_import
from py4j.protocol import REFLECTION_COMMAND_NAME, Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from analysis.spark.gateway import RememberedNames


@pytest.mark.spark
def test_a_function_is_looked_up_in_java_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = []
    send = GatewayClient.send_command

    def counting(client: GatewayClient, command: str, *args: object, **options: object) -> object:
        if command.startswith(REFLECTION_COMMAND_NAME):
            lookups.append(command)
        return send(client, command, *args, **options)

    assert isinstance(spark._jvm, RememberedNames)
    spark._jvm.__dict__.pop("functions", None)
    monkeypatch.setattr(GatewayClient, "send_command", counting)
    for _ in range(2):
        assert spark.range(3).select(F.greatest("id", "id").alias("id")).count() == 3
    assert lookups
    assert len(set(lookups)) == len(lookups)


@pytest.mark.spark
def test_a_name_that_an_import_makes_a_class_is_found(spark: SparkSession) -> None:
    jvm = RememberedNames(spark.sparkContext._gateway.new_jvm_view("test"))  # type: ignore[union-attr]
    with pytest.raises((TypeError, Py4JError)):
        jvm.BitSet()
    java_import(jvm, "java.util.BitSet")
    assert jvm.BitSet().cardinality() == 0
