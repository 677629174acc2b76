"""Many runs: cells, resume."""
