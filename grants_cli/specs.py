"""The machine's specs for one command, which looks at them several times and parses each once."""

from functools import cache
from pathlib import Path

from spec.layout import Layout
from spec.registry import CachedRegistry, Registry


def machine_specs(layout: Layout) -> Registry:
    """What the machine's specs define at this moment; never raises for what is in them."""
    return _cached(layout.cdi_dir).current()


@cache
def _cached(directory: Path) -> CachedRegistry:
    return CachedRegistry([directory])
