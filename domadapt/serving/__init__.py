"""A trained model on a web page and behind a JSON endpoint, for trying it out."""
