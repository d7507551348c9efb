"""``renet completion``."""

from spec.completion import completion_command

completion = completion_command("renet")
