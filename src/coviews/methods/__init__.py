"""What learns from the views: encoders, losses and methods; nothing here knows of a policy."""
