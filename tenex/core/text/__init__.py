"""Text: foreign text made safe, names, amounts in words, lines of a transcript."""
