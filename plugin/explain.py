"""What the gate would answer, with the reasons: the same `decide`, asked by an operator.

Four things can be explained: the body of ``POST /containers/create``, a recorded authorization message, what
``docker inspect`` prints of a container (would it start?), and a Compose file.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from plugin import compose, message
from plugin.compose import Document, Question
from plugin.context import Answer, ContainerQuery, Context, Query
from plugin.correct import Fault, corrected
from plugin.daemon import stored_container
from plugin.decide import Decision, Request
from plugin.denial import Denial, DenialError
from plugin.judge import Ask, judge
from plugin.rules.catalogue import tier
from spec.errors import UsageError


@dataclass(frozen=True)
class Explained:
    """One request and the decision on it; `where` gives each reason's key in the Compose file, if it has
    one.
    """

    what: str
    decision: Decision
    where: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[Denial, ...]:
        """All reasons against it, the one that the client would read first."""
        return () if self.decision.denial is None else (self.decision.denial, *self.decision.others)


@dataclass(frozen=True)
class Explanation:
    """All requests of one input, and the corrected services, as YAML, where it is a Compose file."""

    requests: tuple[Explained, ...]
    corrected: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the gate would let all of it pass."""
        return all(request.decision.allow for request in self.requests)

    def record(self) -> dict[str, object]:
        """It as JSON has it."""
        return {
            "allowed": self.allowed,
            "requests": [_record(request) for request in self.requests],
            "corrected": self.corrected,
            "text": self.text(),
        }

    def text(self) -> str:
        """It for a person."""
        lines = list(self._lines())
        if self.corrected:
            lines += ["", "What would be allowed instead:", "", self.corrected.rstrip()]
        return "\n".join(lines)

    def _lines(self) -> Iterator[str]:
        for request in self.requests:
            decision = request.decision
            if decision.allow:
                devices = f", with {', '.join(decision.devices)}" if decision.devices else ""
                yield f"{request.what}: allowed{devices}"
                continue
            yield f"{request.what}: refused"
            for reason, where in zip(request.reasons, request.where, strict=True):
                yield f"  {where or reason.field or 'the request'}: {reason.message}"
                yield f"    rule {reason.rule} ({tier(reason.rule)})"
                yield f"    {reason.fix}"


def _record(request: Explained) -> dict[str, object]:
    return {
        "what": request.what,
        "allowed": request.decision.allow,
        "devices": list(request.decision.devices),
        "problems": [
            {
                "rule": reason.rule,
                "tier": str(tier(reason.rule)),
                "field": reason.field,
                "key": where,
                "message": reason.message,
                "fix": reason.fix,
            }
            for reason, where in zip(request.reasons, request.where, strict=True)
        ],
    }


def explain(content: bytes, directory: Path, context: Context, ask: Ask) -> Explanation:
    """What the gate would answer to `content`; relative paths of a Compose file start at `directory`.

    Raises `UsageError` where it is none of what can be explained.
    """
    text = _text(content)
    value = _json(text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        if "RequestMethod" in value:
            return _one("the request", _recorded(content), context, ask)
        if "HostConfig" in value and "Id" in value:
            return _stored(value, context, ask)
        if "services" not in value:
            return _one("the container", Request("POST", "/containers/create", content), context, ask)
    return _compose(compose.load(text, directory), directory, context, ask)


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeError as error:
        raise UsageError("this is not text in UTF-8") from error


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _recorded(content: bytes) -> Request:
    try:
        return message.parse(content)
    except DenialError as error:
        raise UsageError(error.denial.message) from error


def _one(what: str, request: Request, context: Context, ask: Ask) -> Explanation:
    return Explanation((_explained(Question(what, request), judge(request, context, ask, thorough=True)),))


def _stored(container: Document, context: Context, ask: Ask) -> Explanation:
    try:
        stored = stored_container(container)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError("this is not what docker inspect prints of a container") from error
    query = ContainerQuery("container")

    def ask_but_it(queries: tuple[Query, ...]) -> dict[Query, Answer]:
        others = tuple(each for each in queries if each != query)
        known: dict[Query, Answer] = {query: stored} if query in queries else {}
        return known | (ask(others) if others else {})

    return _one("its start", Request("POST", "/containers/container/start", None), context, ask_but_it)


def _compose(document: Document, directory: Path, context: Context, ask: Ask) -> Explanation:
    def explained(changed: Document) -> Iterable[Explained]:
        for question in compose.questions(changed, directory):
            yield _explained(question, judge(question.request, context, ask, thorough=True))

    def faults(changed: Document) -> Iterable[Fault]:
        for question in compose.questions(changed, directory):
            decision = judge(question.request, context, ask)
            if decision.denial is not None:
                yield Fault(decision.denial, question.key_of(decision.denial.field))

    requests = tuple(explained(document))
    if all(request.decision.allow for request in requests):
        return Explanation(requests)
    device = min(context.granted, default=next(iter(context.available), ""))
    better = corrected(document, device, faults) if device in context.granted else None
    return Explanation(requests, _changes(document, better) if better else "")


def _changes(before: Document, after: Document) -> str:
    """The services, volumes and networks of `after` that differ from `before`."""
    changed: dict[str, dict[str, object]] = {}
    for kind in ("services", "volumes", "networks"):
        old, new = (cast("dict[str, object]", each.get(kind) or {}) for each in (before, after))
        if different := {name: entry for name, entry in new.items() if entry != old.get(name)}:
            changed[kind] = different
    return yaml.safe_dump(changed, sort_keys=False, allow_unicode=True)


def _explained(question: Question, decision: Decision) -> Explained:
    reasons = () if decision.denial is None else (decision.denial, *decision.others)
    return Explained(question.what, decision, tuple(_shown(question, reason) for reason in reasons))


def _shown(question: Question, reason: Denial) -> str:
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in question.key_of(reason.field)
    )[1:]
