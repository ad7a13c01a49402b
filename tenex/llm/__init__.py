"""The models a conversation can be held with; each is a `core.ports.Model`.

`offline` needs neither key nor network and is the default. Adapters for vendors' models live beside it.

Never: decide what may happen in a conversation; a model proposes, the core checks.
"""
