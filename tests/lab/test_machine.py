"""The lab machine keeps its promises."""

from pathlib import Path

import pytest

from tests.lab.machine import LabError, Machine

pytestmark = pytest.mark.lab


def test_it_has_systemd_docker_and_two_render_nodes(lab: Machine) -> None:
    assert lab.run("systemctl is-system-running").stdout.strip() == "running"
    assert (
        lab.run("docker info --format '{{.CgroupVersion}} {{.CgroupDriver}}'").stdout.strip() == "2 systemd"
    )
    assert lab.run("ls /dev/dri").stdout.split() == ["by-path", "card0", "card1", "renderD128", "renderD129"]


def test_its_user_may_use_sudo_but_is_not_root(lab: Machine) -> None:
    assert lab.run("id -un; sudo id -un", user="admin").stdout.split() == ["admin", "root"]
    with pytest.raises(LabError, match="exit status 1"):
        lab.run("test -w /etc", user="admin")


def test_it_reaches_no_network(lab: Machine) -> None:
    probe = "timeout 3 bash -c 'exec 3<>/dev/tcp/10.0.2.2/22'"
    assert lab.run(probe, check=False).returncode != 0


def test_the_project_installs(lab: Machine) -> None:
    lab.install_project()
    assert "Usage" in lab.run("renet --help").stdout


def test_its_disk_outlives_reboot_and_power_cut(lab: Machine, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("kept")
    lab.copy_in(tmp_path / "note", "/srv/deep/note")
    lab.run("sync; touch /run/volatile")
    lab.reboot()
    assert lab.run("cat /srv/deep/note; ls /run/volatile", check=False).stdout == "kept"
    lab.power_cut()
    lab.start()
    assert lab.run("cat /srv/deep/note").stdout == "kept"
