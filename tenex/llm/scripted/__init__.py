"""A model made of rules: it makes the quickstart, the tests and the benchmarks run on any machine.

    model.py        the port: counts words, publishes its text so far, hands the request to the router or to the worker
    asked.py        the router's question as values       router.py      who works next
    transcript.py   what a run has seen and done so far   worker.py      one step of an agent
    marks.py        quotations and file names in a text   intent.py      what kind of message it is
    tasks.py        what a request wants made             reading.py     from words to tasks
    phrases.py edits.py part.py                           the forms a part of a request takes
    recipes.py formulas.py   known by heart               writing.py     from tasks to file contents
    execute.py verification.py closing.py talk.py         the phases

It speaks English only, and understands the commonest verbs of German, Spanish and French.
"""

from .model import OfflineModel, Pace

__all__ = ["OfflineModel", "Pace"]
