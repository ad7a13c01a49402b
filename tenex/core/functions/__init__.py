"""Functions of operators: what they answered, and signals that wait for them."""
