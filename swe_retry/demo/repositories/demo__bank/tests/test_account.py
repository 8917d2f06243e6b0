import pytest

from bank import Account


def test_deposit():
    account = Account()
    account.deposit(50)
    assert account.balance == 50


def test_withdraw_too_much():
    with pytest.raises(ValueError):
        Account(10).withdraw(20)


def test_transfer():
    one, two = Account(100), Account(0)
    one.transfer(30, two)
    assert (one.balance, two.balance) == (70, 30)


def test_transfer_too_much_is_an_error():
    with pytest.raises(ValueError):
        Account(10).transfer(20, Account())
