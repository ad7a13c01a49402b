"""tenex holds conversations between people and LLM agents over Nostr relays."""

__version__ = "0.1.0"
