"""The commands ``renet gpu …``, one module each; `machine_setup.renet` mounts them by name."""
