"""What a distribution's package has brought is left to it."""

from pathlib import Path

import pytest

from machine_setup.deployed import is_packaged


def test_a_file_of_the_package_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "etc/systemd/system/rediacc-gate.service"
    assert not is_packaged(path, b"unit")
    packaged = tmp_path / "usr/lib/systemd/system/rediacc-gate.service"
    packaged.parent.mkdir(parents=True)
    packaged.write_bytes(b"unit")
    assert is_packaged(path, b"unit")
    assert not is_packaged(path, b"another version's")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"an administrator's")
    assert not is_packaged(path, b"unit")


def test_the_real_machines_package_is_looked_for_below_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[Path]()

    def is_file(path: Path) -> bool:
        looked.append(path)
        return False

    monkeypatch.setattr(Path, "is_file", is_file)
    assert not is_packaged(Path("/etc/systemd/system/rediacc-none.slice"), b"unit")
    assert looked == [Path("/usr/lib/systemd/system/rediacc-none.slice")]
