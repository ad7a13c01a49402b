"""Tests of what speaks Nostr."""
