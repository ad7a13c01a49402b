"""The bugs of the program this one follows, each a test with its number; README.md says which have none, and why."""
