"""The Nostr client: keys and events, relay connections, and the threading schemes of conversations.

events keys               what is signed, and by whom
filters wire              the protocol of one connection without I/O: frames in, frames out
connection relay pool     one socket, one relay across reconnects, several relays as one
req history_buffer        subscriptions on one relay, and the stored events that are read for them
threading                 how a conversation is read and written in each kind of event
"""
