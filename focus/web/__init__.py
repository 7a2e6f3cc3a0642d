"""The page on which a puzzle is entered and its repair watched, and its server."""
