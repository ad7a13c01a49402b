"""A repository is known again by more than its path."""

from pathlib import Path

from tenex.tools import workspace_scan


def test_a_repository_that_came_in_the_place_of_another_is_another_one(root: Path) -> None:
    """Also where the disk gives it the same number, as most do."""
    (root / ".git").mkdir()
    first = workspace_scan.take(root).protections()
    assert workspace_scan.take(root).protections() == first
    (root / ".git").rmdir()
    (root / ".git").mkdir()
    second = workspace_scan.take(root).protections()
    assert second.keys() == first.keys()
    assert second != first
