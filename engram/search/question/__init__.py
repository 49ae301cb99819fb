"""What is asked of a search: the parsed question, its terms, dates and intent."""
