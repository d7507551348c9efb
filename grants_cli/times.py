"""Times as the machine's files write them (UTC, whole seconds), and as an operator types an expiry."""

import re
from datetime import UTC, datetime, timedelta

from spec.errors import InvalidNameError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(?:(\d{1,9})([smhdw]))+")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2})")


def utc_now() -> datetime:
    """The present, cut to the second: that is what the files can hold."""
    return datetime.now(UTC).replace(microsecond=0)


def to_text(moment: datetime) -> str:
    """`moment` as files have it: ``2026-01-31T10:00:00Z``."""
    # Ten times as fast as strftime, and a file may hold thousands.
    return moment.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def from_text(text: str) -> datetime:
    """The moment that a file's `text` names; raises `ValueError`."""
    return datetime.fromisoformat(text)


def age(moment: datetime, now: datetime) -> str:
    """How long before `now` the `moment` was, in the largest unit that fits."""
    seconds = (now - moment).total_seconds()
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if seconds >= 0 else "in the future: check the clock"


def parse_expiry(text: str, now: datetime) -> datetime:
    """The moment that ``8h``, ``1d12h`` or ``2026-12-31T18:00Z`` means at `now`.

    Raises `InvalidNameError` for another form, for a moment without a time zone and for one that has passed.
    """
    moment = _moment(text, now)
    if moment is None:
        raise InvalidNameError(
            f"{text!r} is not a time to expire at",
            "give a duration such as 30m, 8h or 7d, or a moment with its zone such as 2026-12-31T18:00Z",
        )
    if moment <= now:
        raise InvalidNameError(
            f"a grant cannot expire at {to_text(moment)}: that has passed (now {to_text(now)})",
            "give a moment in the future, or revoke the grant",
        )
    return moment


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        if _DURATION.fullmatch(text):
            parts = re.findall(r"(\d+)([smhdw])", text)
            return now + sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None
