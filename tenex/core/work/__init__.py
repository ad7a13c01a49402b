"""Work: the open turn, its runs and their calls."""
