"""Changes of the register, each with what it means for grants.

Grants belong to a GUID, and every new repository is given a new one: a fork, a copy and a later
repository of an old name begin without grants. A rename keeps the GUID, and so the grants.
"""

import re
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import Transaction
from spec.errors import InvalidNameError
from spec.layout import Layout

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Bytes of a socket's path that Linux can bind (sun_path without its NUL, unix(7)).
_LONGEST_SOCKET = 107


def new_guid() -> str:
    """An identity that no repository has had."""
    return str(uuid.uuid4())


def parse_guid(text: str) -> str:
    """The GUID that `text` spells, in lower case; raises `InvalidNameError`."""
    guid = text.lower()
    if not _GUID.fullmatch(guid):
        raise InvalidNameError(
            f"{text!r} is not a GUID", "it is 8-4-4-4-12 hexadecimal digits; uuidgen makes one"
        )
    return guid


@dataclass(frozen=True)
class Places:
    """Where a repository's daemon is."""

    socket: Path
    data_root: Path
    daemon_json: Path

    @classmethod
    def managed(cls, layout: Layout, ref: Ref, guid: str) -> "Places":
        """Where renet puts the daemon of the repository `ref` when it makes it."""
        return cls(layout.docker_socket(ref.slug), layout.data_root(guid), layout.daemon_json(ref.slug))


def check_socket_lengths(layout: Layout, ref: Ref) -> None:
    """Raise `InvalidNameError` when a socket named after `ref` could not be bound."""
    for path in (layout.plugin_socket(ref.slug), layout.docker_socket(ref.slug)):
        excess = len(str(path).encode()) - _LONGEST_SOCKET
        if excess > 0:
            raise InvalidNameError(
                f"the name {ref} is too long: Linux could not bind the socket {path}",
                f"choose a name that is {excess} characters shorter",
            )


def add(transaction: Transaction, repository: Repository, action: str) -> None:
    """Register `repository`, without any grant; raises `RefusedError` when something of it is taken."""
    register = transaction.register.with_new(repository)
    # Its GUID may be one that an operator chose, and that had grants once.
    transaction.commit(action, transaction.grants.replaced(repository.guid, ()), register)


def delete(transaction: Transaction, repository: Repository) -> None:
    """Remove `repository` with all its grants."""
    grants = transaction.grants.replaced(repository.guid, ())
    transaction.commit("repository-delete", grants, transaction.register.without(repository.guid))


def rename(transaction: Transaction, repository: Repository, ref: Ref, places: Places) -> Repository:
    """Give `repository` another name, and its daemon the places that follow from it; its grants stay."""
    renamed = replace(
        repository, ref=ref, socket=places.socket, data_root=places.data_root, daemon_json=places.daemon_json
    )
    transaction.commit("repository-rename", register=transaction.register.replaced(renamed))
    return renamed
