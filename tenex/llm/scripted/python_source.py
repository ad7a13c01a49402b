"""Reading Python without running it, whatever stands in it."""

import ast
import warnings


def parse_module(source: str) -> ast.Module | None:
    """The module's tree, or None where the source is no valid Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a person's text is their business
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # nesting too deep is one of the latter
            return None


def is_expression(text: str) -> bool:
    """Whether a text is one Python expression."""
    tree = parse_module(f"({text}\n)")
    return tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) and "#" not in text


def functions_named(source: str, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef] | None:
    """The functions of that name at the top of a module, in order; None where it is no valid Python."""
    tree = parse_module(source)
    if tree is None:
        return None
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node for node in found if node.name == name]
