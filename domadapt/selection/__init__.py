"""Which checkpoint is kept: one validator each."""
