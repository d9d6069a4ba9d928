"""What moves between tables, views and files: rows with multiplicity, as columns of words."""
