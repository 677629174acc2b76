"""What a model knows: heads against relations, patterns, probes, shift."""
