"""How a policy learns: the reward and the search; nothing here sees an image or an encoder."""
