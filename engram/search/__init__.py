"""Query to ranked hits, with a reason for every score."""
