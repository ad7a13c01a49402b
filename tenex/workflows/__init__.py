"""Kinds of conversations that users define: speakers (AG2), missions (pydantic-graph) and Python agents (pyagentic)."""
