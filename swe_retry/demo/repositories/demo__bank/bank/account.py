"""An account in cents."""


class Account:
    """Holds an amount that may not fall below zero."""

    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        """Add ``amount``."""
        self.balance += amount

    def withdraw(self, amount):
        """Take ``amount`` off; ValueError when there is less."""
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance -= amount

    def transfer(self, amount, other):
        """Move ``amount`` to the account ``other``."""
        other.deposit(amount)
        self.withdraw(amount)
