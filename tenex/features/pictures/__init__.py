"""Pictures of users' messages, which models are shown."""
