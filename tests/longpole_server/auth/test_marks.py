from longpole_server.auth.marks import Marks

MARKS = Marks("k" * 40)


def test_a_mark_is_good_for_its_name_and_its_server_alone():
    value = MARKS.make("ana")
    assert MARKS.find(value, "ana") == Marks("k" * 40).find(value, "ana") is not None
    assert MARKS.find(value, "bo") is None
    assert MARKS.find(value[:-1] + "~", "ana") is None
    assert Marks("x" * 40).find(value, "ana") is None
    assert MARKS.find(None, "ana") is None
    assert MARKS.find("", "ana") is None


def test_browsers_are_told_apart():
    assert MARKS.find(MARKS.make("ana"), "ana") != MARKS.find(MARKS.make("ana"), "ana")
