"""What every rule declares, a kind of anomaly or a clause."""

from __future__ import annotations

import msgspec


class DeclaredRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule; `module` is `__name__` of the module that declares it."""

    module: str

    @property
    def name(self) -> str:
        """The name of the module, with hyphens."""
        return self.module.rpartition(".")[2].replace("_", "-")
