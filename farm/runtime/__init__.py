"""The loops that act: scoring workers and the supervisor that runs them."""
