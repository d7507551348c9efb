"""Which containers of a repository have a device: its own Docker daemon knows."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

from grants_cli.register import Repository
from spec.errors import CommandFailedError, UnreachableError

if TYPE_CHECKING:
    from docker import APIClient

#: The API of Docker 25, the oldest engine that we support; every later one speaks it.
_API_VERSION = "1.44"
#: Seconds. A daemon whose gate does not answer hangs: a list of all repositories must not.
_TIMEOUT = 3
_STOP_TIMEOUT = 60
_RUNNING = frozenset({"running", "paused", "restarting"})
_AT_ONCE = 32
#: As the API has it; types-docker knows two of the four policies.
_NO_RESTART: Any = {"Name": "no", "MaximumRetryCount": 0}


@dataclass(frozen=True)
class Container:
    """A container that asks for CDI devices."""

    id: str
    name: str
    status: str
    devices: frozenset[str]
    restart_policy: str

    @property
    def holds(self) -> bool:
        """Whether it has its devices now."""
        return self.status in _RUNNING

    @property
    def comes_back(self) -> bool:
        """Whether its daemon starts it again by itself."""
        return self.restart_policy not in {"", "no"}


@dataclass(frozen=True)
class Answer:
    """What a repository's daemon said."""

    containers: tuple[Container, ...] = ()
    #: Why it said nothing, empty when it did. A daemon that does not run has no containers.
    problem: str = ""
    is_down: bool = False


def containers_of(repository: Repository) -> tuple[Container, ...]:
    """The containers of `repository` that ask for CDI devices, running or not; raises `UnreachableError`."""
    with _client(repository, _TIMEOUT) as client:
        return tuple(_containers(client))


def ask(repositories: Iterable[Repository]) -> dict[str, Answer]:
    """What each repository's daemon says, by GUID; all are asked at once."""
    answers = {
        repository.guid: Answer(is_down=True) for repository in repositories if not repository.socket.exists()
    }
    up = [repository for repository in repositories if repository.guid not in answers]
    if up:
        from concurrent.futures import ThreadPoolExecutor  # as in `_client`

        with ThreadPoolExecutor(min(_AT_ONCE, len(up))) as pool:
            answers.update(zip((repository.guid for repository in up), pool.map(_answer, up), strict=True))
    return answers


def _answer(repository: Repository) -> Answer:
    try:
        return Answer(containers_of(repository))
    except UnreachableError as error:
        return Answer(problem=error.message)


def release(repository: Repository, containers: Iterable[Container]) -> None:
    """Stop each container, and see that its daemon does not start it again.

    Raises `CommandFailedError` naming the one that could not be stopped, and `UnreachableError`.
    """
    from docker.errors import APIError  # as in `_client`

    with _client(repository, _STOP_TIMEOUT) as client:
        for container in containers:
            try:
                # The policy first: "always" would bring it back while it is being stopped.
                if container.comes_back:
                    client.update_container(container.id, restart_policy=_NO_RESTART)
                if container.holds:
                    client.stop(container.id)
            except APIError as error:
                raise CommandFailedError(
                    f"{container.name} of {repository.ref} could not be stopped: {error.explanation}",
                    f"docker -H unix://{repository.socket} rm --force {container.name}",
                ) from error


@contextlib.contextmanager
def _client(repository: Repository, timeout: int) -> Iterator["APIClient"]:
    # docker-py takes 0.15 s to import: only a command that talks to a daemon pays for it.
    import requests
    from docker import APIClient
    from docker.errors import DockerException

    client = APIClient(f"unix://{repository.socket}", version=_API_VERSION, timeout=timeout)
    try:
        yield client
    except (requests.RequestException, DockerException) as error:
        raise UnreachableError(
            f"the Docker daemon of {repository.ref} does not answer at {repository.socket}: {error}",
            f"renet doctor {repository.ref}",
        ) from error
    finally:
        client.close()


class _DeviceRequest(TypedDict):
    Driver: str
    DeviceIDs: list[str] | None


class _HostConfig(TypedDict):
    DeviceRequests: list[_DeviceRequest] | None
    RestartPolicy: dict[str, str]


class _State(TypedDict):
    Status: str


class _Inspected(TypedDict):
    Id: str
    Name: str
    State: _State
    HostConfig: _HostConfig


def _containers(client: "APIClient") -> Iterator[Container]:
    from docker.errors import NotFound

    for summary in client.containers(all=True):
        # One that goes in between holds nothing.
        with contextlib.suppress(NotFound):
            container = _container(cast(_Inspected, client.inspect_container(summary["Id"])))
            if container.devices:
                yield container


def _container(inspected: _Inspected) -> Container:
    host = inspected["HostConfig"]
    requests = [request for request in host.get("DeviceRequests") or [] if request.get("Driver") == "cdi"]
    return Container(
        inspected["Id"],
        inspected["Name"].removeprefix("/"),
        inspected["State"]["Status"],
        frozenset(name for request in requests for name in request.get("DeviceIDs") or []),
        host.get("RestartPolicy", {}).get("Name", ""),
    )
