"""The Debian mirror that this machine's own apt sources name: nothing here knows a host of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.engine.refusal import Refusal

DEBIAN_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)


@dataclass(frozen=True)
class Source:
    """One archive of an apt sources file. `keyring` is None where the entry names no file."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    keyring: Path | None


def debian_source(apt_dir: Path = Path("/etc/apt"), keyrings: tuple[Path, ...] = DEBIAN_KEYRINGS) -> Source:
    """The machine's Debian archive, with the keyring that verifies it.

    Raises `Refusal` where the machine has no such source, as on another distribution, or no keyring.
    """
    for source in read_sources(apt_dir):
        if "main" in source.components and source.uri.rstrip("/").endswith("/debian"):
            keyring = source.keyring or next((path for path in keyrings if path.exists()), None)
            if keyring is None:
                raise Refusal(
                    "this machine has no keyring for Debian's archive: apt-get install debian-archive-keyring"
                )
            return Source(source.uri, source.suites, source.components, keyring)
    raise Refusal(f"no Debian mirror is named in {apt_dir}/sources.list or {apt_dir}/sources.list.d")


def read_sources(apt_dir: Path) -> Iterator[Source]:
    """Every binary archive that apt would read, in both of its formats (sources.list(5))."""
    parts = sorted((apt_dir / "sources.list.d").glob("*"))
    for path in (apt_dir / "sources.list", *parts):
        if path.suffix == ".list" and path.is_file():
            yield from _one_line_entries(path.read_text())
        elif path.suffix == ".sources":
            yield from _stanzas(path.read_text())


def _one_line_entries(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        match = re.match(
            r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<rest>.*)", line
        )
        if match:
            options = dict(re.findall(r"(\S+?)\s*=\s*(\S+)", match["options"] or ""))
            components = tuple(match["rest"].partition("#")[0].split())
            yield Source(match["uri"], (match["suite"],), components, _keyring(options.get("signed-by", "")))


def _stanzas(text: str) -> Iterator[Source]:
    uncommented = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", uncommented):
        fields: dict[str, list[str]] = {}
        name = ""
        for line in stanza.splitlines():
            if not line[:1].isspace():
                name, _, line = line.partition(":")  # noqa: PLW2901
            fields.setdefault(name.lower(), []).extend(line.split())
        if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"]) != ["no"]:
            for uri in fields.get("uris", []):
                yield Source(
                    uri,
                    tuple(fields.get("suites", [])),
                    tuple(fields.get("components", [])),
                    _keyring(" ".join(fields.get("signed-by", []))),
                )


def _keyring(signed_by: str) -> Path | None:
    """The named file; a fingerprint or a key inside the sources file names none."""
    path = re.split(r"[, ]", signed_by, maxsplit=1)[0]
    return Path(path) if path.startswith("/") else None
