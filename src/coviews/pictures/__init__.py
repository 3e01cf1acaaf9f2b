"""Pictures drawn with Pillow: contact sheets, neighbours, maps."""
