"""Device grants and repositories: the store, the commands that manage it, and ``rdc``."""
