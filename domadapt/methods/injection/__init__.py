"""How syntax enters the model: one file each."""
