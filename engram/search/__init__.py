"""Turn a query into ranked hits, with a reason for every score."""
