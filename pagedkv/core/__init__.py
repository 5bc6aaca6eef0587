"""Block pools and what is read from their events. Needs nothing but the standard library."""
