from longpole_server.auth.attempts import FailedAttempts


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_who_fails_often_waits_until_the_window_has_passed():
    clock = Clock()
    attempts = FailedAttempts(3, 100.0, clock)
    for second in (0.0, 10.0, 20.0):
        clock.seconds = second
        assert attempts.wait_s("address/a", "name/x") == 0
        attempts.add("address/a", "name/x")
    assert attempts.wait_s("address/a") == 80.0
    assert attempts.wait_s("address/b", "name/x") == 80.0
    assert attempts.wait_s("address/b", "name/y") == 0
    clock.seconds = 100.0
    assert attempts.wait_s("address/a") == 0


def test_who_proves_it_starts_anew():
    attempts = FailedAttempts(1, 100.0, Clock())
    attempts.add("name/x")
    attempts.forget("name/x")
    assert attempts.wait_s("name/x") == 0


def test_memory_is_bounded():
    attempts = FailedAttempts(1, 100.0, Clock())
    for number in range(10_050):
        attempts.add(f"name/{number}")
    assert len(attempts._failures) == 10_000
    assert attempts.wait_s("name/10049") > 0
