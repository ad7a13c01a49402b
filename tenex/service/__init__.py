"""What a daemon owes to the machine it runs on: word to the service manager, a socket for questions and orders."""
