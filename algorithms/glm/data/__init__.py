"""From what people pass to `fit` to rows of numbers: files, tables, coding, responses."""
