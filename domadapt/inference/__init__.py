"""A trained model at work: save, load, predict, export."""
