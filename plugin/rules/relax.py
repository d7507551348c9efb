"""Host rules: what an operator may allow one repository, and how the denial says so."""

from plugin.context import Context
from plugin.denial import Denial

ALWAYS = "true"


def relaxable(rule: str, message: str, subject: str, field: str, context: Context) -> Denial:
    """A denial by a host rule; `subject` is what gate.yaml has to name to allow it."""
    value = subject if subject == ALWAYS else f"[{subject[:200]}]"
    fix = (
        f"Leave it out, or ask an operator to allow it in gate.yaml:"
        f" repositories: {{{context.repository}: {{allow: {{{rule}: {value}}}}}}}"
    )
    return Denial(rule, message, fix, field, subject=subject)


def is_relaxed(denial: Denial, context: Context) -> bool:
    """Whether the operator allows this repository what `denial` refuses."""
    allowed = context.relaxed.get(denial.rule)
    if not allowed or not denial.subject:
        return False
    if denial.rule == "bind-system":
        return any(within(denial.subject, directory) for directory in allowed)
    return denial.subject in allowed


def within(path: str, directory: str) -> bool:
    """Whether the clean absolute `path` is `directory` or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
