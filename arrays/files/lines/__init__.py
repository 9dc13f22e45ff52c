"""Lines of text files: which process reads which, and what their fields mean."""
