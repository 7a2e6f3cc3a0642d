"""The paper's idea: measure repair, choose the frontier, replay the complete state."""
