"""`tenex doctor`: checks everything a daemon needs and reports each problem with its location and its fix."""
