"""What is wrong with the corpora, before anybody believes a score: one question a function, all read by `audit.py`."""
