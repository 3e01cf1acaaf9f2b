"""Where everything from outside the process comes in: bounded readers, and typed schemas for what they read."""
