"""Test modules state what they are about and lie where they are searched for; ruff checks those of the package."""

from .tree import ROOT, docstring_of, name_of, named, text_of

SPECIAL = "benchmarks bugs fakes histories repository interop mutation properties service simulation"
"""Folders of tests that belong to no package alone."""


def test_every_test_module_states_what_it_is_about() -> None:
    """Tests are read to learn what the program does; the first line of a file states which part."""
    assert not [name_of(path) for path in named(".py", "tests") if text_of(path).strip() and not docstring_of(path)]


def test_tests_lie_where_the_package_has_a_folder_or_are_of_a_special_kind() -> None:
    """`tests/<package>/` mirrors `tenex/<package>/`; what does not is one of the special kinds."""
    paths = (path.relative_to(ROOT / "tests") for path in named(".py", "tests"))
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    packages = {path.parent.name for path in named(".py", "tenex") if path.name == "__init__.py"}
    assert folders <= packages.union(SPECIAL.split())
