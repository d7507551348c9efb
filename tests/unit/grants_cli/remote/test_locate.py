"""Which machine is meant."""

import pytest

from grants_cli.remote import locate, machines
from grants_cli.remote.answers import Repository
from grants_cli.remote.machines import Machine, Machines
from grants_cli.remote.target import Target
from spec.errors import RediaccError, UnreachableError

PLACES: dict[str, list[str] | None] = {"m1": ["gpu-a", "both"], "m2": ["both", "gpu-b:test"], "m3": None}


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Three machines, the third of which is down. Only the network is replaced."""

    def repositories(machine: Machine, timeout: float | None = None) -> list[Repository]:
        refs = PLACES[machine.name]
        if refs is None:
            raise UnreachableError(f"{machine} is down")
        return [Repository(ref, {"ref": ref}) for ref in refs]

    monkeypatch.setattr(locate, "repositories", repositories)
    monkeypatch.setenv("REDIACC_ROOT", str(tmp_path))


def known(*names: str) -> Machines:
    found = Machines()
    for name in names:
        found = found.with_machine(machines.machine(name, name, None))
    return found


def refused(target: str, on: str = "", *, among: Machines, changes: bool = False) -> RediaccError:
    with pytest.raises(RediaccError) as caught:
        locate.machine_of(Target.parse(target), among, on, changes)
    return caught.value


@pytest.mark.parametrize(
    ("target", "on", "machine"),
    [
        ("gpu-a", "", "m1"),
        ("gpu-b:test", "", "m2"),
        ("both@m2", "", "m2"),
        ("both", "m1", "m1"),
        ("both@m1", "m1", "m1"),
    ],
)
def test_the_only_machine_that_has_it_or_the_named_one(target: str, on: str, machine: str) -> None:
    assert locate.machine_of(Target.parse(target), known("m1", "m2"), on).name == machine


def test_several_machines_are_listed() -> None:
    error = refused("both", among=known("m1", "m2"))
    assert error.exit_status == 11
    assert "m1, m2" in error.message
    assert "both@m1 or both@m2" in error.hint


def test_none_is_not_found() -> None:
    assert refused("gpu-c", among=known("m1", "m2")).exit_status == 5
    assert refused("gpu-b", among=known("m1", "m2")).exit_status == 5  # gpu-b:test is another repository


def test_two_names_for_the_machine_contradict() -> None:
    error = refused("gpu-a@m1", "m2", among=known("m1", "m2"))
    assert error.exit_status == 12
    assert "m1" in error.message
    assert "m2" in error.message


def test_what_the_machine_has_not_got_but_another_has_is_a_contradiction() -> None:
    among = known("m1", "m2", "m3")
    error = locate.contradicted(Target.parse("gpu-a@m2"), among.get("m2"), among)
    assert error
    assert error.exit_status == 12
    assert "m2" in error.message
    assert "m1" in error.message
    assert locate.contradicted(Target.parse("gpu-c@m2"), among.get("m2"), among) is None


def test_a_silent_machine_stops_a_change_but_no_look() -> None:
    among = known("m1", "m2", "m3")
    assert locate.machine_of(Target.parse("gpu-a"), among).name == "m1"
    error = refused("gpu-a", among=among, changes=True)
    assert error.exit_status == 6
    assert "m3" in error.message
    assert "gpu-a@m1" in error.hint
    assert refused("gpu-c", among=among).exit_status == 6


def test_a_new_repository_needs_a_machine_where_there_is_a_choice() -> None:
    assert locate.machine_for_new(Target.parse("new"), known("m1")).name == "m1"
    assert locate.machine_for_new(Target.parse("new@m2"), known("m1", "m2")).name == "m2"
    with pytest.raises(RediaccError) as caught:
        locate.machine_for_new(Target.parse("new"), known("m1", "m2"))
    assert caught.value.exit_status == 2
    assert "new@m1 or new@m2" in caught.value.hint
