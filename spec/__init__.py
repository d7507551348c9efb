"""CDI specs: names, the reader, the writer, and the specs that are generated from sysfs.

- `spec.names`: qualified names.
- `spec.reader`: one spec file, to a value of `spec.model` or to every problem with it.
- `spec.registry`: directories of specs, by the engine's rules; what a name injects.
- `spec.writer`: a spec to a file, in one step and only when it differs.
- `spec.topology`: the machine's GPUs as the kernel shows them.
- `spec.generate`: our own specs, brought up to date with the machine.
"""

__version__ = "0.1.0"
