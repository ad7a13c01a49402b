"""What a model is shown: the context window, the transcript, the router prompt and the system prompts."""
