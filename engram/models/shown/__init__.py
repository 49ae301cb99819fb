"""What agents were shown, and the figures of use."""
