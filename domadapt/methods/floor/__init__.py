"""What rules reach without a network: one file each."""
