"""The ensemble language: any parts with their instruments, bar by bar, with an optional plan of each bar."""
