"""gate.yaml relaxes host rules by name, and a mistake in it opens nothing."""

from pathlib import Path

import pytest

from plugin.options import parse_options, read_options, read_or_default, schema
from plugin.rules.catalogue import RULES, Tier
from spec.errors import UntrustedError

GOOD = """
version: 1
log: all
repositories:
  gpu-a:
    allow:
      host-ipc: true
      extra-capability: [NET_ADMIN, SYS_RESOURCE]
      security-option: ["seccomp=unconfined", "log-driver=syslog"]
      bind-system: [/var/log]
  gpu-b:v2:
    allow: {host-uts: true, host-network-driver: [macvlan]}
"""


def test_a_good_file() -> None:
    options = parse_options(GOOD, "gate.yaml")
    assert options.log_all
    assert options.allowed("gpu-a")["extra-capability"] == {"NET_ADMIN", "SYS_RESOURCE"}
    assert options.allowed("gpu-a")["host-ipc"] == {"true"}
    assert options.allowed("gpu-b:v2")["host-network-driver"] == {"macvlan"}
    assert options.allowed("another") == {}


@pytest.mark.parametrize("text", ["", "version: 1", "---\n", "# nothing yet\n"])
def test_a_file_without_options(text: str) -> None:
    assert parse_options(text, "gate.yaml").allow == {}


WRONG = {
    "no version": "repositories: {}",
    "another version": "version: 2",
    "a version in words": "version: '1'",
    "true for one": "version: true",
    "an unknown key": "version: 1\nallow: {host-ipc: true}",
    "a hardware rule": "version: 1\nrepositories: {a: {allow: {privileged: true}}}",
    "a protocol rule": "version: 1\nrepositories: {a: {allow: {unknown-field: true}}}",
    "a rule that is none": "version: 1\nrepositories: {a: {allow: {everything: true}}}",
    "a capability of the kernel": "version: 1\nrepositories: {a: {allow: {extra-capability: [ALL]}}}",
    "a capability in another case": "version: 1\nrepositories: {a: {allow: {extra-capability: [net_admin]}}}",
    "false": "version: 1\nrepositories: {a: {allow: {host-ipc: false}}}",
    "true in a list": "version: 1\nrepositories: {a: {allow: {host-ipc: [true]}}}",
    "a word for a list": "version: 1\nrepositories: {a: {allow: {extra-capability: NET_ADMIN}}}",
    "an empty list": "version: 1\nrepositories: {a: {allow: {bind-system: []}}}",
    "a relative directory": "version: 1\nrepositories: {a: {allow: {bind-system: [var/log]}}}",
    "the root directory": "version: 1\nrepositories: {a: {allow: {bind-system: [/]}}}",
    "a trailing slash": "version: 1\nrepositories: {a: {allow: {bind-system: [/var/log/]}}}",
    "a name that is no repository's": "version: 1\nrepositories: {'*': {allow: {host-ipc: true}}}",
    "a key twice": "version: 1\nrepositories: {a: {allow: {host-ipc: true}}}\nrepositories: {}",
    "a repository twice": "version: 1\nrepositories: {a: {allow: {host-ipc: true}}, a: {}}",
    "a list at the top": "- version: 1",
    "a date for a name": "version: 1\nrepositories: {2026-01-01: {allow: {host-ipc: true}}}",
    "no YAML": "version: [1",
    "a tag that runs code": "!!python/object/apply:os.getcwd []",
    "two documents": "version: 1\n---\nversion: 1",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_reported_and_opens_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(WRONG[name])
    with pytest.raises(UntrustedError, match=r"gate\.yaml is not used"):
        read_options(path)
    options = read_or_default(path)
    assert options.problem
    assert options.allow == {}


def test_a_missing_file_is_no_mistake(tmp_path: Path) -> None:
    assert read_or_default(tmp_path / "gate.yaml").problem == ""


def test_a_file_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(GOOD)
    path.chmod(0o666)
    assert read_or_default(path).allow == {}


def test_the_schema_knows_the_host_rules_and_no_other() -> None:
    definitions = schema()["definitions"]
    assert isinstance(definitions, dict)
    relaxable = {rule.id for rule in RULES if rule.tier is Tier.HOST}
    assert set(definitions["allow"]["properties"]) == relaxable


ROOT = Path(__file__).parents[3]


def test_the_examples_are_good() -> None:
    shipped = (ROOT / "deploy/examples/gate.yaml").read_text()
    assert parse_options(shipped, "example").allowed("gpu-a")["extra-capability"] == {"NET_ADMIN"}
    shown = (ROOT / "docs/security.md").read_text().split("```yaml\n")[1].split("```")[0]
    relaxable = {rule.id for rule in RULES if rule.tier is Tier.HOST}
    assert set(parse_options(shown, "security.md").allowed("gpu-a")) == relaxable
