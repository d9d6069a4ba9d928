"""TPC-H: its tables, data, queries and refresh functions, and the bench over them."""
