"""Names of Java's are looked up once, and all steps of a plan have one call site."""

from __future__ import annotations

import pytest
from py4j.java_gateway import GatewayClient, java_import
from py4j.protocol import REFLECTION_COMMAND_NAME, Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from analysis.reconcile.session import one_call_site


@pytest.mark.spark
def test_a_function_is_looked_up_in_java_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = []
    send = GatewayClient.send_command

    def counting(client: GatewayClient, command: str, *args: object, **options: object) -> object:
        if command.startswith(REFLECTION_COMMAND_NAME):
            lookups.append(command)
        return send(client, command, *args, **options)

    F.greatest("id", "id")
    monkeypatch.setattr(GatewayClient, "send_command", counting)
    assert spark.range(3).select(F.greatest("id", "id").alias("id")).count() == 3
    F.soundex("id")
    assert [one.split("\n")[3] for one in lookups if "functions" in one] == ["soundex"]


@pytest.mark.spark
def test_a_name_that_an_import_makes_a_class_is_found(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    with pytest.raises((TypeError, Py4JError)):
        jvm.BitSet()
    java_import(jvm, "java.util.BitSet")
    assert jvm.BitSet().cardinality() == 0


@pytest.mark.spark
def test_the_call_site_is_that_of_the_caller_again_after_the_block(spark: SparkSession) -> None:
    spark.sparkContext.setLocalProperty("callSite.short", "mine")
    with one_call_site(spark):
        assert spark.range(1)._jdf.toJavaRDD().rdd().getCreationSite() == "ebbtide"
    assert spark.range(1)._jdf.toJavaRDD().rdd().getCreationSite() == "mine"
    spark.sparkContext.setLocalProperty("callSite.short", None)  # type: ignore[arg-type]
