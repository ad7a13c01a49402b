"""Capabilities that can be left out, each in one folder. None imports another; `tenex/main.py` lists them."""
