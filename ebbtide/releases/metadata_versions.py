"""The names of metadata.version's feature levels (KIP-778), as a vector names them."""

from __future__ import annotations

METADATA_VERSIONS: dict[str, int] = {
    name: level
    for level, name in enumerate(
        (
            "3.0-IV1",
            "3.1-IV0",
            "3.2-IV0",
            *(f"3.3-IV{patch}" for patch in range(4)),
            "3.4-IV0",
            *(f"3.5-IV{patch}" for patch in range(3)),
            *(f"3.6-IV{patch}" for patch in range(3)),
            *(f"3.7-IV{patch}" for patch in range(5)),
            "3.8-IV0",
            "3.9-IV0",
            *(f"4.0-IV{patch}" for patch in range(4)),
            "4.1-IV0",
            "4.1-IV1",
            "4.2-IV0",
            "4.2-IV1",
            "4.3-IV0",
            *(f"4.4-IV{patch}" for patch in range(3)),
        ),
        start=1,
    )
}
