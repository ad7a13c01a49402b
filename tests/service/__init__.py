"""The real process: its signals, its death, its files, its words to the operator."""
