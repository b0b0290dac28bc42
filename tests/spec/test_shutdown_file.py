"""The epoch in a clean-shutdown file: each case was executed on the CleanShutdownFileHandler of 3.9.1 and 4.3.1."""

from __future__ import annotations

import pytest

from analysis.spec.shutdown import previous_broker_epoch


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ('{"version":0,"brokerEpoch":10}', 10),
        ('{"version":0,"brokerEpoch":"10"}', 10),
        ('{"version":0,"brokerEpoch":" 10 "}', 10),
        ('{"brokerEpoch":"+10"}', 10),
        ('{"brokerEpoch":"-5"}', -5),
        ('{"brokerEpoch":"-0"}', 0),
        ('{"brokerEpoch":"010"}', 10),
        ('{"brokerEpoch":"\\t10\\n"}', 10),
        ('{"brokerEpoch":"\u0661\u0660"}', 10),
        ('{"brokerEpoch":10.0}', 10),
        ('{"brokerEpoch":10.9}', 10),
        ('{"brokerEpoch":-10.9}', -10),
        ('{"brokerEpoch":1e3}', 1000),
        ('{"brokerEpoch":10,"other":1}', 10),
        ('{"brokerEpoch":7,"brokerEpoch":10}', 10),
        ('{"brokerEpoch":10} trailing', 10),
        ('{"version":"0","brokerEpoch":10}', 10),
        ('{"version":"","brokerEpoch":10}', 10),
        ('{"version":null,"brokerEpoch":10}', 10),
        ('{"version":0.5,"brokerEpoch":10}', 10),
        ('{"version":"x","brokerEpoch":10}', None),
        ('{"version":true,"brokerEpoch":10}', None),
        ('{"version":[],"brokerEpoch":10}', None),
        ('{"version":99999999999,"brokerEpoch":10}', None),
        ('{"brokerEpoch":""}', None),
        ('{"brokerEpoch":"ten"}', None),
        ('{"brokerEpoch":"10.0"}', None),
        ('{"brokerEpoch":"0x10"}', None),
        ('{"brokerEpoch":"1e3"}', None),
        ('{"brokerEpoch":"1_0"}', None),
        ('{"brokerEpoch":"\u00a010"}', None),
        ('{"brokerEpoch":"-"}', None),
        ('{"brokerEpoch":"null"}', None),
        ('{"brokerEpoch":true}', None),
        ('{"brokerEpoch":null}', None),
        ('{"brokerEpoch":[10]}', None),
        ('{"brokerEpoch":9223372036854775808}', None),
        ('{"brokerEpoch":"9223372036854775808"}', None),
        ('{"brokerEpoch":1e30}', None),
        ('{"brokerEpoch":1e999}', None),
        ('{"brokerEpoch":NaN}', None),
        ('{"brokerEpoch":010}', None),
        ('{"BrokerEpoch":10}', None),
        ("{'brokerEpoch':10}", None),
        ('\ufeff{"brokerEpoch":10}', None),
        ("[10]", None),
        ('"10"', None),
        ("10", None),
        ("null", None),
        ("", None),
    ],
)
def test_an_epoch_is_read_as_kafka_reads_it(text: str, epoch: int | None) -> None:
    assert previous_broker_epoch([text]) == (-1 if epoch is None else epoch)
    # -1 is also "none read yet", so that only a second directory shows a file without an epoch.
    assert previous_broker_epoch(['{"brokerEpoch":-1}', text, '{"brokerEpoch":10}']) == (10 if epoch == 10 else -1)
