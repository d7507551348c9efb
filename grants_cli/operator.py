"""Who gives the command: the person behind sudo, not root."""

import os
import pwd


def operator_name() -> str:
    """The login name of the operator; the user id in digits where it has no name.

    Only root's own environment is believed: whoever else sets ``SUDO_USER`` speaks for themselves.
    """
    sudo_user = os.environ.get("SUDO_USER", "")
    if os.geteuid() == 0 and sudo_user:
        return sudo_user
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def operator_uid() -> int:
    """The user id of the operator."""
    sudo_uid = os.environ.get("SUDO_UID", "")
    return int(sudo_uid) if os.geteuid() == 0 and sudo_uid.isdigit() else os.getuid()
