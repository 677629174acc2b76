"""What is predicted: head, loss, decoding, metrics."""
