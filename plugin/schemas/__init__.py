"""The schema of gate.yaml, as shipped."""
