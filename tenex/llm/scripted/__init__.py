"""The offline model: fixed rules for a few English requests, so that tenex can be tried and tested without a vendor.

Equal requests get equal answers; nothing leaves the process. ADR 26 lists what it understands.
"""

from .model import OfflineModel, Pace

__all__ = ["OfflineModel", "Pace"]
