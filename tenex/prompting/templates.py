"""Renders the prompts' templates in a sandbox, with errors for undefined names.

Templates are the built-in ones, and the text of agents whose front matter has phases or state. Any other text of a
user, a file or an agent is only a value: it is inserted as it is, and never parsed as a template.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tenex.core.errors import ConfigurationError

MISTAKES = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an expression in a template can raise; `SecurityError` is a `TemplateError`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A template's text and its file, for errors."""

    text: str
    file: str


class Sandbox(ImmutableSandboxedEnvironment):
    """Cannot change values; `state.items` is the field of that name, not Python's method."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A mapping's key before its attribute."""
        return obj[attribute] if isinstance(obj, Mapping) and attribute in obj else super().getattr(obj, attribute)


def sandbox(load: Callable[[str], tuple[str, str, None] | None] = lambda _name: None) -> Sandbox:
    """An environment for templates and expressions, which cannot change values."""
    environment = Sandbox(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        # prompts are Markdown for a model, not HTML for a browser: escaping would only garble code and quotes
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.clear()  # a prompt needs values, filters and loops, no functions
    return environment


class Templates:
    """The templates of one library, compiled when first used."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        """Take the templates by name; an include finds these only."""
        self._sources = dict(sources)
        self._environment = sandbox(self._load)

    def _load(self, name: str) -> tuple[str, str, None] | None:
        source = self._sources.get(name)
        return None if source is None else (source.text, source.file, None)

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """Render one template, without surrounding space.

        Raises:
            ConfigurationError: the template fails; with file and line.
        """
        try:
            return self._environment.get_template(name).render(values).strip()
        except MISTAKES as error:
            raise ConfigurationError([self._sentence(name, error)]) from error

    def faults(self, name: str, samples: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Errors of a template: names that not every sample has, else errors in rendering the samples.

        Names are looked up in the whole text, so that one in a branch that no sample takes is found too.
        """
        source = self._sources[name]
        tried = list(samples)
        try:
            tree = self._environment.parse(source.text)
            given = set.intersection(*(set(sample) for sample in tried)) if tried else set[str]()
            unknown = meta.find_undeclared_variables(tree) - given
        except TemplateSyntaxError as error:
            return (self._sentence(name, error),)
        if unknown:
            lines: dict[str, int] = {}
            for node in tree.find_all(nodes.Name):
                lines.setdefault(node.name, node.lineno)
            return tuple(
                f"{source.file}:{lines.get(variable, 1)}: there is no variable {variable!r}. "
                f"There are: {', '.join(sorted(given))}."
                for variable in sorted(unknown)
            )
        found: dict[str, None] = {}
        for sample in tried:
            try:
                self.render(name, sample)
            except ConfigurationError as error:
                found.update(dict.fromkeys(error.faults))
        return tuple(found)

    def _sentence(self, name: str, error: BaseException) -> str:
        file = self._sources[name].file
        line: int | None = error.lineno if isinstance(error, TemplateSyntaxError) else None
        for frame in traceback.extract_tb(error.__traceback__):  # jinja puts the template's own lines into it
            if frame.filename == file:
                line = frame.lineno
        return f"{file}:{line or 1}: the template cannot be rendered: {str(error).rstrip('.')}."
