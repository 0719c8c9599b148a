"""The console: what an operator sees and does in the admin site."""
