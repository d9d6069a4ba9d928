"""What a query means: types, schemas, expressions and relations, free of any SQL text or engine."""
