"""Configurations of client processes: a test names what it is about, and the rest leads nowhere."""

from __future__ import annotations

from typing import Any

from workloads.config import ConsumerConfig, Endpoints, FinalReadConfig, ProducerConfig, SamplerConfig

NOWHERE = Endpoints(status="", stop="")


def producer_config(**settings: Any) -> ProducerConfig:
    """Producer 1 of the topic t, in the run r."""
    usual = {"endpoints": NOWHERE, "journal": "", "run_id": "r", "bootstrap": (), "id": 1, "topic": "t"}
    return ProducerConfig(**{**usual, **settings})


def consumer_config(**settings: Any) -> ConsumerConfig:
    """Consumer 1 of the topic t with two partitions, in the run r."""
    usual = {"endpoints": NOWHERE, "journal": "", "run_id": "r", "bootstrap": (), "id": 1, "topics": {"t": 2}}
    return ConsumerConfig(**{**usual, **settings})


def sampler_config(**settings: Any) -> SamplerConfig:
    """A sampler of the topic t, which has one partition."""
    return SamplerConfig(**{"endpoints": NOWHERE, "journal": "", "described": "", "topics": {"t": 1}, **settings})


def final_read_config(**settings: Any) -> FinalReadConfig:
    """The final read of the topic t, which has one partition, in the run r."""
    usual = {"endpoints": NOWHERE, "journal": "", "run_id": "r", "bootstrap": (), "topics": {"t": 1}, "result": ""}
    return FinalReadConfig(**{**usual, **settings})
