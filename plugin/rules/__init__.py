"""The rules: one module for each way in that the gate closes."""
