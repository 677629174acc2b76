"""Sections of the page that `domadapt analyze` writes: one file a question."""
