"""What points other programs at the gate: one file a family of clients, and what prints it or writes it."""
