"""Every module states what lives in it, and tests lie where they are searched for."""

from .tree import ROOT, docstring_of, name_of, named

MODULES = named(".py", "tenex")


def test_every_module_states_what_lives_in_it() -> None:
    """The docstring is there; one sentence is enough."""
    assert not [name_of(path) for path in MODULES if not docstring_of(path)]


def test_every_folder_of_the_package_is_a_package() -> None:
    """A folder without `__init__.py` has no place to state what it is for, and installers may leave it out."""
    folders = {path.parent for path in MODULES}
    assert folders, "the package was not found"
    bare = [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()]
    assert not bare


def test_every_test_module_states_what_it_is_about() -> None:
    """Tests are read to learn what the program does; the first line of a file states which part."""
    mute = [name_of(path) for path in named(".py", "tests") if path.read_text().strip() and not docstring_of(path)]
    assert not mute


def test_tests_lie_where_the_package_has_a_folder_or_are_of_a_special_kind() -> None:
    """`tests/<package>/` mirrors `tenex/<package>/`; what does not is one of the special kinds."""
    special = {
        "benchmarks",
        "bugs",
        "contracts",
        "fakes",
        "histories",
        "repository",
        "interop",
        "mutation",
        "properties",
        "service",
        "simulation",
    }
    folders = {
        path.relative_to(ROOT / "tests").parts[0] for path in named(".py", "tests") if path.parent.name != "tests"
    }
    packages = {path.parent.name for path in named(".py", "tenex") if path.name == "__init__.py"}
    assert folders <= special | packages
