"""Programs on the shards of a Spark job: what runs inside a Python worker."""
