"""The gate: a Docker authorization plugin that admits a device only by a grant."""
