"""The nouns of a decision, as plain data; every other layer may know them."""
