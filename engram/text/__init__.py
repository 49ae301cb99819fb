"""Words, stems and sentences: every tokenizer, stemmer, stop-word list and splitter of Engram, each named for its use.

They differ because fitted weights and thresholds depend on each; two are merged only together with a new fit.

    module              words and stop words  stems           sentences         used by
    question_words      terms_of, STOP_WORDS                                    search: questions, recency; bench
    coverage_stem                             coverage_stem                     search: coverage
    excerpt_sentences                                         sentence_spans    search: excerpts
    topic_words         topic_words                                             recollection: prompts, bites
    recollection_stems                        stems, overlap                    recollection: relevance, duplicates
    content_words       content_words         prefixes                          extraction: repetition, grounding
    statements                                                split, sentences  extraction: candidates
    summary_words       words_of, STOP_WORDS  stem                              consolidation, memories: same matter
    passages                                                  split_passages    models: what is stored and embedded
    unspaced            in_pairs                                                models, search: scripts without spaces

Two tokenizers stay where they are, since no other code needs them: the words of a score (``extraction/score.py``) and
the tokens with numbers and units (``text/subject.py``).
"""
