"""A benchmark's cells as one file for a machine without network: what goes into it, and what runs it there."""
