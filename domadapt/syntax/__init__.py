"""Parses, their cache, and their alignment with pieces. No torch.nn here."""
