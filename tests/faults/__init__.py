"""One thing fails at one point of a history: an allocation, copy, call or thread."""
