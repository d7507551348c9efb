"""Finding out whether the machine's files can be trusted, and bringing back the newest state that can."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from grants_cli import audit, generations, views
from grants_cli.documents import Kind
from grants_cli.generations import Generation
from grants_cli.grants import Grants
from grants_cli.lock import TIMEOUT, machine_lock
from grants_cli.operator import operator_name, operator_uid
from grants_cli.register import Register
from grants_cli.store import (
    grants_at,
    grants_document,
    read_grants,
    read_register,
    register_at,
    register_document,
    remove_leftovers,
)
from grants_cli.times import to_text, utc_now
from spec.errors import StorageError, UntrustedError
from spec.files import replace_file
from spec.layout import Layout


@dataclass(frozen=True)
class FileReport:
    """What is known about one of the machine's files."""

    kind: Kind
    path: Path
    #: What is wrong with it; empty when it can be trusted.
    problem: str
    #: The newest kept state that can be trusted, `None` where there is none.
    newest_good: Generation | None

    @property
    def lost(self) -> bool:
        """Whether the file is gone although it has been written once."""
        return not self.problem and self.newest_good is not None and not self.path.exists()


def inspect(layout: Layout) -> list[FileReport]:
    """What can be said about each file, without changing anything."""
    return [_inspect(layout, kind) for kind in (Kind.GRANTS, Kind.REPOSITORIES)]


def _inspect(layout: Layout, kind: Kind) -> FileReport:
    path, problem = _path(layout, kind), ""
    try:
        _reader(kind)(path)
    except UntrustedError as error:
        problem = error.message
    return FileReport(kind, path, problem, _newest_good(layout, kind))


def _newest_good(layout: Layout, kind: Kind) -> Generation | None:
    for generation in generations.kept(layout.generations, kind):
        with contextlib.suppress(UntrustedError):
            _reader(kind)(generation.path)
            return generation
    return None


@dataclass(frozen=True)
class Restored:
    """A file that was brought back."""

    path: Path
    generation: Generation
    #: When that state was written.
    written_at: datetime
    #: Where the file that could not be trusted is now, `None` where there was none.
    set_aside: Path | None
    #: Actions of later changes, which the restored state does not have.
    lost_changes: tuple[str, ...]


def restore(layout: Layout, *, dry_run: bool = False, timeout: float = TIMEOUT) -> list[Restored]:
    """Bring back the newest good state of each file that is damaged or gone.

    The damaged file is set aside, never removed. Grants of repositories that are not registered, and
    expired ones, do not come back. Raises `UntrustedError` when a file has no good state to bring back,
    and `StorageError`.
    """
    with machine_lock(layout.grants_lock, utc_now(), timeout):
        # The register first: which grants come back depends on it.
        reports = sorted(inspect(layout), key=lambda report: report.kind is Kind.GRANTS)
        wanted = [
            (report, _good_state(report), _aside(layout, report))
            for report in reports
            if report.problem or report.lost
        ]
        restored = [_describe(layout, report, good, aside) for report, good, aside in wanted]
        if wanted and not dry_run:
            audit.append(layout.audit_log, _audit_line(restored))
            for report, good, aside in wanted:
                _put_back(layout, report, good, aside)
            register = read_register(layout)
            views.refresh(layout, register.repositories, read_grants(layout), utc_now())
        return restored


def _good_state(report: FileReport) -> Generation:
    if report.newest_good is None:
        raise UntrustedError(
            f"{report.problem}; and no good copy of it was kept",
            f"mend {report.path} by hand; or move it away, which leaves the machine without what it says",
        )
    return report.newest_good


def _aside(layout: Layout, report: FileReport) -> Path | None:
    if report.lost:
        return None
    return layout.generations / f"{report.kind.value}.damaged-{utc_now():%Y%m%dT%H%M%SZ}"


def _describe(layout: Layout, report: FileReport, good: Generation, aside: Path | None) -> Restored:
    written_at = datetime.fromtimestamp(good.path.stat().st_mtime, UTC).replace(microsecond=0)
    section = report.kind.value
    lost = (
        f"{line.get('time')} {line.get('action')} by {line.get('operator')}"
        for line in audit.read(layout.audit_log)
        if line.get(section) and "failed" not in line and _number(line) > good.number
    )
    return Restored(report.path, good, written_at, aside, tuple(lost))


def _number(line: audit.Entry) -> int:
    number = line.get("generation")
    return number if isinstance(number, int) else 0


def _audit_line(restored: list[Restored]) -> audit.Entry:
    return {
        "time": to_text(utc_now()),
        "action": "restore",
        "operator": operator_name(),
        "uid": operator_uid(),
        "restored": [{"file": item.path.name, "generation": item.generation.number} for item in restored],
    }


def _put_back(layout: Layout, report: FileReport, good: Generation, aside: Path | None) -> None:
    remove_leftovers(report.path.parent, report.path.name)
    try:
        if aside:
            _set_aside(report.path, aside)
        if report.kind is Kind.GRANTS:
            content = grants_document(_still_valid(grants_at(good.path), read_register(layout)))
        else:
            content = register_document(register_at(good.path))
        replace_file(report.path, content, 0o600)
    except OSError as error:
        raise StorageError(
            f"cannot bring back {report.path}: {error.strerror}", "make room or make it writable, then repeat"
        ) from error


def _set_aside(path: Path, aside: Path) -> None:
    try:
        # A second name for it, so that no moment is without a file until the good one takes its place.
        os.link(path, aside, follow_symlinks=False)
    except OSError:
        path.rename(aside)


def _still_valid(grants: Grants, register: Register) -> Grants:
    """The grants without those of repositories that are gone, and without what has expired."""
    known = {guid: own for guid, own in grants.by_guid.items() if guid in register.by_guid}
    return Grants(MappingProxyType(known)).swept(utc_now())


def _path(layout: Layout, kind: Kind) -> Path:
    return layout.grants if kind is Kind.GRANTS else layout.register


def _reader(kind: Kind) -> Callable[[Path], object]:
    return grants_at if kind is Kind.GRANTS else register_at
