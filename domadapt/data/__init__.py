"""Records: what they are, how published corpora are read, who may see which labels."""
