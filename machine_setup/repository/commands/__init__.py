"""The commands ``renet repo …``, one module each; `machine_setup.renet` mounts them by name."""
