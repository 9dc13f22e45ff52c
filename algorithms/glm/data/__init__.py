"""Preparation of data for a fit: files, tables, coding and responses become rows of numbers."""
