"""Why the test engine cannot be had."""


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """One sentence for the person who asked: what is missing, and what to do."""
