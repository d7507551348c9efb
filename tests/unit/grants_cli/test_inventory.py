"""The inventory is read as it was written, and nothing that its schema does not allow is read or written."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grants_cli.inventory import GpuRecord, Inventory, read_inventory
from spec.errors import UntrustedError
from spec.files import replace_file
from spec.layout import Layout

CARD: GpuRecord = {
    "index": 0,
    "vendor": "amd",
    "name": "Navi 31",
    "pciAddress": "0000:03:00.0",
    "uuid": None,
    "memoryMiB": 24560,
    "driver": "amdgpu",
    "driverVersion": "6.12.48",
    "renderNode": "/dev/dri/renderD128",
    "cardNode": "/dev/dri/card1",
    "devices": ["rediacc.io/amd=all", "rediacc.io/dri=renderD128"],
}
BARE = Inventory(
    datetime(2026, 1, 31, 10, tzinfo=UTC), "host", "native", (), (), {"installed": False, "version": None}
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.at(tmp_path)


def test_a_machine_without_gpus_has_an_inventory_of_empty_lists(layout: Layout) -> None:
    assert read_inventory(layout) is None
    replace_file(layout.inventory, BARE.encode())
    assert read_inventory(layout) == BARE
    assert BARE.to_document()["gpus"] == BARE.to_document()["devices"] == []


def test_what_was_written_is_read(layout: Layout) -> None:
    inventory = replace(BARE, gpus=(CARD,), warnings=("one. Do this",))
    replace_file(layout.inventory, inventory.encode())
    assert read_inventory(layout) == inventory
    assert inventory.cards_of("rediacc.io/dri=renderD128") == ("0000:03:00.0",)
    assert inventory.cards_of("rediacc.io/dri=renderD129") == ()


@pytest.mark.parametrize(
    "card",
    [
        {**CARD, "pciAddress": "03:00.0"},
        {**CARD, "memoryMiB": -1},
        {**CARD, "surprise": 1},
        {key: value for key, value in CARD.items() if key != "uuid"},
        {**CARD, "devices": ["rediacc.io/amd=all", "rediacc.io/amd=all"]},
    ],
)
def test_what_the_schema_refuses_is_not_written(card: GpuRecord) -> None:
    with pytest.raises(UntrustedError):
        replace(BARE, gpus=(card,)).encode()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 2}', BARE.encode().replace(b'"host"', b"7")])
def test_a_file_that_is_something_else_is_not_believed(layout: Layout, content: bytes) -> None:
    replace_file(layout.inventory, content)
    with pytest.raises(UntrustedError, match=r"inventory\.json") as caught:
        read_inventory(layout)
    assert "renet setup" in caught.value.hint
