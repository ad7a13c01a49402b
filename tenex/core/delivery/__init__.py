"""Delivery: messages that are sent, and the relays that have not answered."""
