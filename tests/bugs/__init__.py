"""The bugs of the program this one follows, each a test with its number; README.md states which have none, and why."""
