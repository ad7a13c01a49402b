"""Pages to watch, to answer and to understand what happened: a process of its own beside the daemon.

It reads the store and asks the control socket; what it shows is computed by `core.projection`, `store` and
`operations`. Only the answers of a user go out, signed by the owner's key, through relays like those of any client.
"""
