"""`triage serve`: a read-only page over a database. Nothing here writes: the database is opened read-only for the length of a visit."""
