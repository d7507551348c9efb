"""Repositories' daemons: how each is configured, what it sees, its network, and its life."""
