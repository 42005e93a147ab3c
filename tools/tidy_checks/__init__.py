"""The checks behind tools/tidy: one module per kind of check, no state between them."""
