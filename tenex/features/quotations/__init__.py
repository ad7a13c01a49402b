"""Words that messages reply to or quote, looked up for models."""
