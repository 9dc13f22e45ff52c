"""Collectives: their algorithms, what each costs, and the choice between them."""
