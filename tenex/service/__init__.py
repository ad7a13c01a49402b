"""The daemon's control socket, and its notifications to the service manager."""
