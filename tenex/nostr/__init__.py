"""Everything that speaks Nostr: keys and events, one relay, many relays as one, and the forms of conversation.

events keys            what is signed, and by whom
filters wire           one connection as pure values: frames in, frames out
session relay pool     the same on real sockets, kept alive through every fault we know of
forms                  how a conversation looks in each of the kinds clients use
"""
