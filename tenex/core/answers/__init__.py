"""Answers of people: the grammar of yes and no, forms, and pictures that say one of both."""
