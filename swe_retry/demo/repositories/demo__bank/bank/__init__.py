"""Accounts and their ledger."""

from bank.account import Account
from bank.ledger import Ledger

__all__ = ["Account", "Ledger"]
