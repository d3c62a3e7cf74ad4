"""What the chain does: listen for the end of a turn, recognise, think, speak."""
