"""What an operator may choose. Apart from the work, so that ``renet setup --help`` need not import that."""

from enum import StrEnum

NVIDIA_REPOSITORY = "https://nvidia.github.io/libnvidia-container"


class ToolkitMode(StrEnum):
    """``--install-nvidia-toolkit``."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"
