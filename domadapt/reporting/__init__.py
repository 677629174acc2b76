"""Run folders in, one report out: nothing here trains, and nothing but run folders is read."""
