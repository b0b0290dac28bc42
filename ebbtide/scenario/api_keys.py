"""Kafka's API keys by name, as the class ApiKeys of Kafka has them.

The table is data, `api_keys.toml`. What an administrative client asks of a broker reaches the controller in an
`Envelope`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

API_KEYS: dict[str, int] = tomllib.loads((files("ebbtide.scenario") / "api_keys.toml").read_text("utf-8"))

API_NAMES: dict[int, str] = {key: name for name, key in reversed(API_KEYS.items())}
"""The newest name of each key."""
