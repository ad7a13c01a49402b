"""A sampled mutation run: which share of small changes to the code do the tests notice."""
