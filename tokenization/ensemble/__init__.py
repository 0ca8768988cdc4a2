"""The ensemble language: any parts in any metre, bar by bar, with an optional plan for each bar."""
