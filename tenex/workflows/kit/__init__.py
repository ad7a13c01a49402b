"""What kinds of conversation and Python agents share. It knows none of them."""
