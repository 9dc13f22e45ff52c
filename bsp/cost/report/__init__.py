"""Reports made from traces and predictions: web pages, tables, and files for Perfetto."""
