"""The question of a search: parsed once into its terms, names, date range and intent."""
