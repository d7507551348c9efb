"""Checks of who may reach a repository's sockets."""

import grp
from collections.abc import Iterator

from machine_setup.doctor.facts import DaemonFacts, SocketFacts
from machine_setup.doctor.finding import Finding, Status


def api_socket(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the Docker API is root's and the named group's alone."""
    socket = facts.api_socket
    if not socket.exists:
        return
    problem = _open_to_others(socket) or _wrong_group(
        socket, facts.repository.group, facts.repository.managed
    )
    if problem:
        group = facts.repository.group or "root"
        mode = "0660" if facts.repository.group else "0600"
        yield Finding(
            "api-socket", Status.FAILURE, facts.name, f"{socket.path} {problem}",
            "whoever may write to it is a tenant of this repository",
            f"chown root:{group} {socket.path} && chmod {mode} {socket.path}",
        )  # fmt: skip
    else:
        yield Finding("api-socket", Status.OK, facts.name, f"{socket.path} has mode {socket.mode:04o}")


def plugin_socket(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether nobody but root can speak for the gate, or to it."""
    socket = facts.plugin_socket
    if not socket.exists:
        return
    problem = _open_to_others(socket) or ("may be used by its group" if socket.mode & 0o070 else "")
    if problem:
        yield Finding(
            "plugin-socket", Status.FAILURE, facts.name, f"{socket.path} {problem}",
            "who reaches the gate learns what is granted; who owns the socket answers in its place",
            f"chown root:root {socket.path} && chmod 0600 {socket.path}",
        )  # fmt: skip
    else:
        yield Finding("plugin-socket", Status.OK, facts.name, f"{socket.path} has mode {socket.mode:04o}")


def _open_to_others(socket: SocketFacts) -> str:
    if socket.uid != 0:
        return f"belongs to user {socket.uid}"
    return f"may be used by everybody (mode {socket.mode:04o})" if socket.mode & 0o007 else ""


def _wrong_group(socket: SocketFacts, group: str, managed: bool) -> str:
    # An adopted daemon gives its socket to a group of its own, as a rule to docker.
    if not managed or not socket.mode & 0o070:
        return ""
    try:
        wanted = grp.getgrnam(group).gr_gid if group else 0
    except KeyError:
        return f"is for the group {group}, which does not exist"
    return "" if socket.gid == wanted else f"may be used by the group {socket.gid}"


CHECKS = (api_socket, plugin_socket)
