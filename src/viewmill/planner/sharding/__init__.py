"""How a view may be spread over shards: what runs where, and where rows go."""
