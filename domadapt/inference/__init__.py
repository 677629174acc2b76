"""A trained model at work: evaluate, save, load, predict."""
