"""What the numbers allow to be said: intervals, tests, counts over pairs, ranks."""
