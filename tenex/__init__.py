"""tenex holds conversations between people and LLM agents over Nostr relays.

    cli > app > {flow | nostr | llm | store | tools | prompting | settings | telemetry} > core

Never: import anything here; `tenex --help` begins with this file.
"""

__version__ = "0.1.0"
