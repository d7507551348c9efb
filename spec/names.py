"""CDI qualified names: ``vendor/class=device``.

The grammar is that of the CDI specification ("Kind" and "Device name") as its reference library applies
it, with one exception: a vendor or class of one letter is refused. The specification allows it, but
version 1.1.0 of the library, which Docker 29.2 and later use, crashes on it.
"""

import re
from dataclasses import dataclass

from spec.errors import InvalidNameError

_VENDOR_OR_CLASS = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)

_HINT = "a device is named vendor/class=device, for example nvidia.com/gpu=all; `renet cdi list` shows all"


def kind_problem(kind: str) -> str:
    """Why `kind` is no ``vendor/class``, as the end of a sentence; empty when it is one."""
    vendor, slash, class_ = kind.partition("/")
    if not slash or not vendor or not class_:
        return "is not of the form vendor/class"
    for part, value in (("vendor", vendor), ("class", class_)):
        if not _VENDOR_OR_CLASS.fullmatch(value):
            return _vendor_or_class_problem(part, value)
    return ""


def _vendor_or_class_problem(part: str, value: str) -> str:
    if len(value) == 1 and value.isascii() and value.isalpha():
        return f"has a {part} of one letter, on which engines that use version 1.1.0 of the CDI library crash"
    return (
        f"has the {part} {value!r}, which must start with a letter, end with a letter or digit, "
        "and hold only letters, digits, '_', '-' and '.' (ASCII)"
    )


def device_problem(device: str) -> str:
    """Why `device` is no device part of a name, as the end of a sentence; empty when it is one."""
    if _DEVICE.fullmatch(device):
        return ""
    return (
        f"has the device {device!r}, which must start and end with a letter or digit "
        "and hold only letters, digits, '_', '-', '.' and ':' (ASCII)"
    )


@dataclass(frozen=True, order=True)
class QualifiedName:
    """A valid name of one device. Case counts. ``str()`` gives the text back that `parse` took."""

    vendor: str
    class_: str
    device: str

    @classmethod
    def parse(cls, text: str) -> "QualifiedName":
        """Read ``vendor/class=device``; raises `InvalidNameError` that says what is wrong with `text`."""
        kind, equals, device = text.partition("=")
        vendor, slash, class_ = kind.partition("/")
        if not (equals and slash and vendor and class_ and device):
            raise InvalidNameError(f"{text!r} is not a device name of the form vendor/class=device", _HINT)
        problem = kind_problem(kind) or device_problem(device)
        if problem:
            raise InvalidNameError(f"{text!r} {problem}", _HINT)
        return cls(vendor, class_, device)

    @property
    def kind(self) -> str:
        """The vendor and class, as a spec's ``kind`` says them."""
        return f"{self.vendor}/{self.class_}"

    def __str__(self) -> str:
        return f"{self.vendor}/{self.class_}={self.device}"
