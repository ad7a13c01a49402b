"""Puts the parts together: `root` builds, `bookkeeper` and `introductions` are the glue between siblings."""

from .root import Application, open_application

__all__ = ["Application", "open_application"]
