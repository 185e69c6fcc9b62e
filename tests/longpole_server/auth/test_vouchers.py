from longpole_server.auth.vouchers import Voucher, Vouchers

KEY = "k" * 40
NOW_S = 1_700_000_000.0


def test_a_voucher_says_for_whom_another_server_asks():
    mine, other = Vouchers(KEY, lambda: NOW_S), Vouchers(KEY, lambda: NOW_S + 100)
    voucher = Voucher("10.0.0.7", is_encrypted=True, user="ana")
    assert other.read(mine.make(voucher)) == voucher
    assert other.read(mine.make(Voucher())) == Voucher()


def test_a_voucher_of_another_key_is_none():
    assert Vouchers(KEY).read(Vouchers("x" * 40).make(Voucher("10.0.0.7"))) is None
    for forged in ("", "a.b", "W10.x", None):
        assert Vouchers(KEY).read(forged) is None


def test_an_old_voucher_is_none_and_so_is_one_of_the_future():
    made = Vouchers(KEY, lambda: NOW_S).make(Voucher("10.0.0.7"))
    assert Vouchers(KEY, lambda: NOW_S + 300).read(made) is None
    assert Vouchers(KEY, lambda: NOW_S - 300).read(made) is None
