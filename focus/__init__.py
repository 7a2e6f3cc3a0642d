"""FOCUS: train models that revise an answer instead of writing it once."""
