"""A list of what happened."""


class Ledger:
    """Keeps entries of (name, cents) in order."""

    def __init__(self):
        self.entries = []

    def add(self, name, cents):
        """Note that ``name`` got ``cents``."""
        self.entries.append((name, cents))

    def total(self, name):
        """Return the sum of all entries of ``name``."""
        for entry, cents in self.entries:
            if entry == name:
                return cents
        return 0

    def report(self):
        """Return one line for each entry."""
        return [f"{name}: {cents / 100:.1f}" for name, cents in self.entries]
