"""Search over what was said: candidate passages, their features, the learned model, grouped hits."""
