"""The features of images: as a file, as a map, and which images are alike."""
