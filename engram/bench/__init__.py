"""How well the search does: data sets in, figures with intervals out."""
