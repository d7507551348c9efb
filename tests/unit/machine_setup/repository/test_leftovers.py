"""What a daemon leaves is found while others find and remove it, too."""

import shutil
from pathlib import Path

import pytest

from machine_setup.repository import leftovers

CGROUP = Path("rediacc/0123456a89ab")


def test_a_cgroup_that_goes_away_meanwhile_has_no_more_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "CGROUPS", tmp_path)
    for number, place in enumerate((CGROUP, CGROUP / "one", CGROUP / "one/below"), start=1):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "cgroup.procs").write_text(f"{number}\n")
    assert set(leftovers.members(CGROUP)) == {1, 2, 3}
    members = leftovers.members(CGROUP)
    next(members)
    shutil.rmtree(tmp_path / CGROUP)
    assert list(members) == []
