from longpole_server.service.agenda import Agenda


def test_a_key_falls_due_once_at_the_earliest_time_asked_for():
    agenda: Agenda[str] = Agenda()
    agenda.add("step 1", due_s=5.0)
    agenda.add("step 1", due_s=3.0)
    agenda.add("step 1", due_s=9.0)
    assert agenda.next_due_s == 3.0
    assert agenda.take(2.9) == []
    assert agenda.take(3.0) == ["step 1"]
    assert agenda.take(99.0) == []
    assert agenda.next_due_s is None


def test_what_is_not_due_stays():
    agenda: Agenda[int] = Agenda()
    agenda.add(1, due_s=1.0)
    agenda.add(2, due_s=2.0)
    assert agenda.take(1.5) == [1]
    assert len(agenda) == 1
