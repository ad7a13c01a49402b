"""Puts the parts together: `root` builds, `index_updater` and `profile_publisher` connect siblings."""

from .root import Application, open_application

__all__ = ["Application", "open_application"]
