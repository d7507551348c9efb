"""What the gate costs: ``python -m benchmarks`` prints it, side by side with doing nothing."""
