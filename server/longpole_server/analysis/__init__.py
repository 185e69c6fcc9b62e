"""What the numbers say: ledger, windows, FLOPs, tails, gaps. Pure functions, no judgement."""
