"""Bags read from files: tables, folders, arrays, one reader per format."""
