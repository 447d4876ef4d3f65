"""What the adapters of all frameworks use."""
