"""What travels between board and host: frames, rings, and the counting of what got lost."""
