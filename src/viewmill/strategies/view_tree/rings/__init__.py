"""The rings of view trees, one file each: what a payload is and how it goes up the tree."""
