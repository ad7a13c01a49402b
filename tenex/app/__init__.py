"""Puts the parts together: `root` builds, `bookkeeper` and `introductions` are the glue between siblings.

Never: a rule, or a format; whatever needs a decision of its own belongs to the part it is about.
"""

from .root import Application, open_application

__all__ = ["Application", "open_application"]
