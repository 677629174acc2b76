"""A run on disk: its key, lock, status and metrics, and runs put together."""
