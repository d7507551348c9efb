"""One GPU, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One card. `nodes` are the device nodes that reach it and no other; None is what nobody states."""

    vendor: str
    name: str
    address: str | None = None
    uuid: str | None = None
    memory_mib: int | None = None
    driver: str | None = None
    driver_version: str | None = None
    render_node: str | None = None
    card_node: str | None = None
    nodes: frozenset[str] = frozenset()
