"""Values as people read them in findings."""

import re


def shown(url: str) -> str:
    """An address without its query."""
    return re.sub(r"\?.*", "?...", url)


def size(count: int) -> str:
    """Bytes as people say them."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def several(count: int, one: str, many: str = "") -> str:
    """`1 journal`, `2 journals`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
