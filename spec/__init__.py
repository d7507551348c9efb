"""CDI specs: names, the reader, the writer, and the specs that are generated from sysfs."""

__version__ = "0.1.0"
