"""Hydra in; one configuration, or one line of error, out."""
