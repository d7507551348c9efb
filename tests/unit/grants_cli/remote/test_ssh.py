"""What OpenSSH's messages mean, and what it is asked to do. `tests/remote` makes a real one say most."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from grants_cli.remote import ssh
from grants_cli.remote.machines import Machine


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory as short as a user's runtime directory is."""
    with TemporaryDirectory(prefix="rdc") as name:
        yield Path(name)


LAB = Machine("lab", "lab.example.org", "ops", 2222)


@pytest.mark.parametrize(
    ("messages", "code", "said"),
    [
        ("ssh: connect to host lab port 22: Connection refused", "unreachable", "Connection refused"),
        ("ssh: connect to host lab port 22: Connection timed out", "unreachable", "timed out"),
        ("ssh: connect to host lab port 22: No route to host", "unreachable", "No route"),
        ("ssh: Could not resolve hostname lab: Name or service not known", "unreachable", "resolve hostname"),
        (
            "kex_exchange_identification: read: Connection reset by peer\nConnection reset by lab port 22",
            "unreachable",
            "reset",
        ),
        (
            "Unable to negotiate with lab port 22: no matching host key type found. Their offer: ssh-dss",
            "unreachable",
            "ssh-dss",
        ),
        ("Connection closed by UNKNOWN port 65535", "unreachable", "closed"),
        (
            "No ED25519 host key is known for lab.\nHost key verification failed.",
            "host-key-unknown",
            "not known",
        ),
        (
            "@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n"
            "Offending ED25519 key in /home/ops/.ssh/known_hosts:7\nHost key verification failed.",
            "host-key-changed",
            "line 7 of /home/ops/.ssh/known_hosts",
        ),
        ("ops@lab: Permission denied (publickey).", "login-refused", "refuses the login as ops"),
        ("Received disconnect: Too many authentication failures", "login-refused", "refuses"),
        ("Connection to lab closed by remote host.", "connection-lost", "closed by remote host"),
        ("client_loop: send disconnect: Broken pipe", "connection-lost", "Broken pipe"),
        ("Timeout, server lab not responding.", "connection-lost", "not responding"),
        ("", "connection-lost", "lost"),
    ],
)
def test_each_failure_has_its_own_error_and_next_step(messages: str, code: str, said: str) -> None:
    error = ssh.explain(LAB, messages)
    assert (error.code, error.exit_status) == (code, 6)
    assert said in error.message
    assert "lab" in error.message
    assert "ssh -p2222 -- ops@lab.example.org" in error.hint


def test_a_changed_key_names_the_entry_to_remove() -> None:
    error = ssh.explain(LAB, "REMOTE HOST IDENTIFICATION HAS CHANGED")
    assert "ssh-keygen -R '[lab.example.org]:2222'" in error.hint


def test_nothing_can_ask_a_question_or_be_taken_for_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIACC_SSH", "ssh -F none")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    words = ssh.command(LAB, "true")
    assert "-oBatchMode=yes" in words
    assert words[:3] == ["ssh", "-F", "none"]
    assert words[-3:] == ["--", "ops@lab.example.org", "true"]


def test_the_users_own_shared_connection_and_time_limits_are_kept(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = short / "config"
    config.write_text("Host own.example.org\n  ControlPath ~/.ssh/own\n  ConnectTimeout 60\n")
    monkeypatch.setenv("REDIACC_SSH", f"ssh -F {config}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    own = ssh.command(Machine("own", "own.example.org"), "true")
    assert not [word for word in own if word.startswith(("-oControl", "-oConnectTimeout"))]
    other = ssh.command(Machine("other", "other.example.org"), "true")
    assert f"-oControlPath={short}/rediacc-ssh-{short.stat().st_uid}/%C" in other
    assert "-oConnectTimeout=10" in other


def test_a_control_directory_of_somebody_else_is_not_used(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    made = ssh.control_directory()
    assert made
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o755)
    assert ssh.control_directory() != made


def test_a_control_path_fits_a_socket_address(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short / ("long" * 30)))
    found = ssh.control_directory()
    assert found is None or len(str(found)) < 50
