"""What GPUs a machine has, from sysfs and /proc first and from the vendors' tools where those add something.

``spec.topology`` reads the bus, the render nodes and AMD's compute topology; ``platform`` tells WSL from
bare Linux, ``nvidia`` and ``nvidia_smi`` know NVIDIA's driver, ``machine`` puts it together and says what
is broken.
"""
