"""Engram's tokenizers, stemmers, stop-word lists and sentence splitters, each named after its use.

They can't be merged without a new fit, because fitted weights and thresholds depend on each of them.

    function                        module     used by
    question_words_of, terms_of     words      search: questions, recency
    coverage_stem                   words      search: coverage
    topic_words                     words      recollection: prompts, bites
    stems, overlap                  words      recollection: relevance, duplicates
    content_words, prefixes         words      extraction: repetition, grounding
    words_of, stem                  words      consolidation, memories: same subject
    in_pairs                        words      models, search: scripts without spaces
    sentence_spans                  splitting  search: excerpts
    split, sentences                splitting  extraction: candidates
    split_passages                  splitting  models: what is stored and embedded

The tokenizer that keeps numbers and units is in ``subject.py``, because no other code needs it.
"""
