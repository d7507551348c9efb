"""Reaching other machines: their addresses, the way there, and what ``renet`` answers."""
