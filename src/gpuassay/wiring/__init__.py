"""The hooks: what runs in every process that executes checks, and what only the controller does."""
