"""Uploads files for people to Blossom servers."""
