"""Agents that others have published, added as files of the operator's own: `tenex agents add ADDRESS`."""
