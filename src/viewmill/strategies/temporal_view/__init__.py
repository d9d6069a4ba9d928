"""Views in time parts: sliding windows of whole parts, translated to helper parts."""
