"""From a prompt to bites or silence: gate, choose, render; the files and the socket that hooks read."""
