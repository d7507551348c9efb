"""The commands of ``rdc``."""
