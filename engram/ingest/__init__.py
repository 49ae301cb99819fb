"""Turn transcript lines into stored turns; the turns and the cursor are written in one transaction."""
