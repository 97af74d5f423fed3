"""`llmgate top`: the live screen."""
