"""What knows nothing of the field: files, progress, checkpoints, redaction, safe text."""
