"""What a daemon owes to the machine it runs on: word to the service manager, a socket for questions and orders.

Never: a conversation, a relay or a model; whatever is told or done here is handed in by `app`.
"""
