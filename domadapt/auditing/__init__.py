"""What is wrong with the corpora, before anybody believes a score: one file an idea, all read by `audit.py`."""
