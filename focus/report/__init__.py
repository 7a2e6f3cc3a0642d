"""What is shown to people: tables and figures of stored runs, and the page that plays a repair."""
