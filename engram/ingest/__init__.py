"""Turn transcript lines into stored turns, writing the turns and the cursor in one transaction."""
