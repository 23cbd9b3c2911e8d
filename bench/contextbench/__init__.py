"""A scripted agent works through long streams of operations: what it gets right, and what its prompts cost."""
