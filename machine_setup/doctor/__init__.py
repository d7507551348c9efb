"""The doctor: what makes a machine unsafe or broken, why that matters, and the command that fixes it."""
