"""Amounts in words for people: durations, money, and counted things."""


def duration(seconds: float) -> str:
    """A duration in its two largest units."""
    whole = int(seconds)
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, whole = divmod(whole, size)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts[:2]) or "0 s"


def dollars(cost: float | None) -> str:
    """A cost; "" where there is none, as of a model without a price."""
    if not cost:
        return ""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun, as `1 turn` or `2 turns`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def byte_size(number: int) -> str:
    """A size of a file, as `84 kB`."""
    if number < 1_000:
        return count(number, "byte")
    return f"{number / 1_000:.0f} kB" if number < 1_000_000 else f"{number / 1_000_000:.1f} MB"
