"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """A run that is told to end, as by `timeout`, ends its daemons and machines as it does on Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
