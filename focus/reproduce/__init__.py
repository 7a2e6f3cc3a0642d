"""Which runs make each table and figure, and how they are launched."""
