"""The devices that this machine's specs define: the only ones that can be granted."""

from collections.abc import Iterable
from functools import cache

from grants_cli.hardware import Hardware
from grants_cli.overlap import shared_node
from grants_cli.specs import machine_specs
from spec.errors import NotFoundError
from spec.layout import Layout
from spec.names import QualifiedName


class Devices:
    """What the machine's CDI specs define at this moment, and which hardware that is."""

    def __init__(self, layout: Layout) -> None:
        self._registry = machine_specs(layout)
        hardware = Hardware(layout)
        self._own = cache(lambda name: hardware.footprint(self._registry.resolve(name).device_edits))
        self._full = cache(lambda name: hardware.footprint(self._registry.resolve(name).edits))
        self._shared = cache(self._shared_node)
        #: The qualified names of all devices, sorted.
        self.names = self._registry.names()

    def __contains__(self, name: object) -> bool:
        return name in self._registry

    def cards(self, name: str) -> frozenset[str]:
        """The PCI addresses of the cards behind `name`, as far as they are known; none for no device."""
        return self._full(name).cards if name in self else frozenset()

    def shared_node(self, one: str, other: str) -> str:
        """The path of a node that makes two known names the same hardware; empty when they are not.

        What the edits of a whole spec bring to each of its devices tells these not apart. Against the
        device of another spec it counts.
        """
        return self._shared(one, other)

    def _shared_node(self, one: str, other: str) -> str:
        footprints = self._full
        if self._file(one) == self._file(other) and self._own(one).own and self._own(other).own:
            footprints = self._own
        return shared_node(footprints(one), footprints(other))

    def check(self, devices: Iterable[str]) -> tuple[str, ...]:
        """`devices`, each once and in order.

        Raises `InvalidNameError` for what is no CDI qualified name and `NotFoundError`, with the near
        misses, for what no spec defines.
        """
        names = tuple(dict.fromkeys(str(QualifiedName.parse(device)) for device in devices))
        for name in names:
            try:
                self._registry.resolve(name)
            except NotFoundError as error:
                raise NotFoundError(error.message, f"{error.hint}{self._broken()}") from error
        return names

    def _file(self, name: str) -> str:
        return str(self._registry.resolve(name).file.path)

    def _broken(self) -> str:
        """What to add to a hint when specs of the machine do not count, because they are invalid."""
        files = sorted({str(problem.file) for problem in self._registry.errors})
        return f"; not all specs can be used, renet cdi list says why: {', '.join(files)}" if files else ""
