"""What is released, built and installed as a user would: `make release-check`."""
