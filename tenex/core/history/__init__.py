"""History: what readers are shown."""
