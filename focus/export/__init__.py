"""Solvers for elsewhere: as ONNX graphs, and as a page that needs no server."""
