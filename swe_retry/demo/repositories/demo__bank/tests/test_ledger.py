from bank import Ledger


def test_total_of_one_entry():
    ledger = Ledger()
    ledger.add("ann", 250)
    assert ledger.total("ann") == 250


def test_total_of_nobody():
    assert Ledger().total("bob") == 0


def test_report_has_two_digits():
    # Known to fail: nobody has mended the report yet.
    ledger = Ledger()
    ledger.add("ann", 250)
    assert ledger.report() == ["ann: 2.50"]
