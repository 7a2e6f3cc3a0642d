"""The commands: each function is one, its signature its flags, its docstring its help."""
