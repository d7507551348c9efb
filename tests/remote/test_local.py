"""The machine `local`: the same commands, as a child process."""

import json
from pathlib import Path

from tests.engine.obtain import obtain
from tests.remote.machine import Operator
from tests.remote.names import SPEC

DEVICE = "example.com/gpu=0"


def test_a_grant_on_this_machine(somebody: Operator) -> None:
    root = Path(somebody.environ["REDIACC_ROOT"])
    (root / "etc/cdi").mkdir(parents=True)
    (root / "etc/cdi/example.json").write_text(SPEC)
    path = obtain().path
    assert "not set up yet" in somebody.rdc("machine", "gpu", "list", "local").stdout
    made = somebody.rdc("repo", "adopt", "gpu-a", "--socket", str(root / "run/d.sock"), PATH=path)
    assert made.returncode == 0, made
    assert somebody.rdc("repo", "gpu", "grant", "gpu-a", "--device", DEVICE).returncode == 0
    listed = json.loads(somebody.rdc("repo", "gpu", "list", "gpu-a@local", "-o", "json").stdout)["data"]
    assert [grant["device"] for grant in listed] == [DEVICE]
    assert (root / "etc/rediacc/gpu/grants.json").exists()


def test_a_module_of_that_name_in_the_current_directory_is_not_run(somebody: Operator) -> None:
    trap = somebody.home / "machine_setup"
    trap.mkdir()
    (trap / "__init__.py").write_text("")
    (trap / "renet.py").write_text("raise SystemExit('trapped')")
    listed = somebody.rdc("repo", "list", "local", "-o", "json")
    assert (listed.returncode, json.loads(listed.stdout)["data"]) == (0, []), listed
