"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """A run that is told to end, as by `timeout`, ends its daemons and machines as it does on Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A run that was started in the background begins with it ignored, and so would the programs that the
    # tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
