"""What several commands use. Commands import it, and it imports no command."""
