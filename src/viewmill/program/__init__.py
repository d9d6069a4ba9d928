"""The narrow waist: states and triggers, the only thing that both halves of the house know."""
