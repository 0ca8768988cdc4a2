"""What single pieces are like, and how far sets of them are apart."""
