"""Who people and programs are: users, tokens, sessions, attempts, and the record of changes."""
