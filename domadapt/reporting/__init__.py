"""Run folders in, one report out."""
