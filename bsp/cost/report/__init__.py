"""Traces and predictions for people to read: pages, tables, Perfetto."""
