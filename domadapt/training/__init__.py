"""One cell: build, fit, select, test."""
