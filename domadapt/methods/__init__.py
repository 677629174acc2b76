"""What adds to training: the contract, and one file a method."""
