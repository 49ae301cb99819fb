"""Words and sentences: tokens, stems, stop words and splitters that several packages share."""
