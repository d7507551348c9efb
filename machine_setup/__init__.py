"""Machine set-up: detection, inventory, repositories' daemons, the doctor, and ``renet``."""
