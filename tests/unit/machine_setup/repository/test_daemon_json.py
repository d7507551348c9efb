"""What a repository's daemon must be told, found and repaired."""

import json
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from machine_setup.repository import daemon_json
from machine_setup.repository.engine import EngineVersion
from machine_setup.repository.network import Network
from spec.errors import UntrustedError

VERSIONS = [EngineVersion(25, 0), EngineVersion(26, 1, 5), EngineVersion(28, 5, 2), EngineVersion(29, 3, 1)]
PLUGIN, SPECS = "rediacc-gpu-a", Path("/etc/cdi")
NETWORK = Network("rd-0123456789ab", IPv4Network("10.128.0.0/18"))


def created(version: EngineVersion, network: Network | None = NETWORK) -> dict[str, object]:
    settings = daemon_json.Settings(PLUGIN, Path("/d"), Path("/e"), "/rediacc/x", "cgroupfs", network)
    return daemon_json.document(settings, version)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_created_daemon_leaves_nothing_open(version: EngineVersion) -> None:
    assert daemon_json.deviations(created(version), PLUGIN, SPECS, version) == ()


def test_a_created_daemon_keeps_its_hands_off_the_firewall_and_has_its_own_addresses() -> None:
    config = created(VERSIONS[2])
    assert {config[key] for key in ("iptables", "ip6tables", "ip-masq", "ip-forward")} == {False}
    assert config["bridge"] == "rd-0123456789ab"
    assert config["default-address-pools"] == [{"base": "10.128.32.0/19", "size": 26}]
    assert created(VERSIONS[2], None)["bridge"] == "none"


def test_nri_is_named_to_engines_that_know_it_only() -> None:
    assert "nri-opts" not in created(VERSIONS[2])
    assert created(VERSIONS[3])["nri-opts"] == {"enable": False}


BAD: list[tuple[str, Mapping[str, object]]] = [
    ("authorization-plugins", {"authorization-plugins": None}),
    ("authorization-plugins", {"authorization-plugins": ["other"]}),
    ("builder.entitlements", {"builder": {"entitlements": {"device": True, "security-insecure": False}}}),
    ("builder.entitlements", {"builder": {"entitlements": {"security-insecure": False}}}),
    ("builder.entitlements", {"builder": None}),
    ("cdi-spec-dirs", {"cdi-spec-dirs": ["/etc/cdi", "/var/run/cdi"]}),
    ("cdi-spec-dirs", {"cdi-spec-dirs": None}),
    ("features.cdi", {"features": {"cdi": False}}),
    ("default-runtime", {"default-runtime": "nvidia"}),
    ("runtimes", {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}),
    ("hosts", {"hosts": ["unix:///run/x.sock", "tcp://0.0.0.0:2375"]}),
    ("experimental", {"experimental": True}),
    ("nri-opts", {"nri-opts": {"enable": True}}),
]


@pytest.mark.parametrize(("key", "change"), BAD)
def test_what_is_open_is_found_and_repaired_and_the_rest_stays(
    key: str, change: Mapping[str, object]
) -> None:
    version = VERSIONS[3]
    config = {**created(version), "labels": ["mine"], **change}
    config = {name: value for name, value in config.items() if value is not None}
    found = daemon_json.deviations(config, PLUGIN, SPECS, version)
    assert [deviation.key for deviation in found] == [key]
    assert found[0].why
    fixed, wrong = daemon_json.repaired(config, PLUGIN, SPECS, version)
    assert wrong == found
    assert daemon_json.deviations(fixed, PLUGIN, SPECS, version) == ()
    assert fixed["labels"] == ["mine"]


def test_a_repair_keeps_other_plugins_hosts_and_entitlements() -> None:
    config: dict[str, object] = {
        "authorization-plugins": ["audit"],
        "builder": {"gc": {"enabled": True}, "entitlements": {"network-host": False}},
        "hosts": ["unix:///run/x.sock", "tcp://0.0.0.0:2375", "fd://"],
    }
    fixed, _ = daemon_json.repaired(config, PLUGIN, SPECS, VERSIONS[3])
    assert fixed["authorization-plugins"] == [PLUGIN, "audit"]
    assert fixed["hosts"] == ["unix:///run/x.sock", "fd://"]
    closed = {"network-host": False, "device": False, "security-insecure": False}
    assert fixed["builder"] == {"gc": {"enabled": True}, "entitlements": closed}


def test_cdi_must_be_switched_on_where_it_is_not_the_default() -> None:
    config = {key: value for key, value in created(VERSIONS[1]).items() if key != "features"}
    wanting = [version for version in VERSIONS if daemon_json.deviations(config, PLUGIN, SPECS, version)]
    assert wanting == VERSIONS[:2]


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_file_that_is_no_configuration_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "daemon.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UntrustedError):
        daemon_json.read(path)
    assert daemon_json.read(tmp_path / "missing") == {}


def test_the_file_is_json() -> None:
    assert json.loads(daemon_json.encode(created(VERSIONS[2])))["default-runtime"] == "runc"
