"""How target text enters training: one file each."""
