"""The switch that stops work in other threads."""

import threading

import pytest

from voxpath.engines.cancel import Cancel, Cancelled


def test_setting_it_calls_what_is_running_and_what_has_ended_not():
    cancel, calls = Cancel(), []
    with cancel.interrupting(lambda: calls.append("ended")):
        pass
    with cancel.interrupting(lambda: calls.append("running")):
        cancel.set()
    assert calls == ["running"]
    assert cancel.is_set


def test_nothing_starts_once_it_is_set():
    cancel = Cancel()
    cancel.check()
    cancel.set()
    cancel.set()
    with pytest.raises(Cancelled):
        cancel.check()
    with pytest.raises(Cancelled), cancel.interrupting(lambda: None):
        pytest.fail("the body ran")


def test_the_same_callback_twice_is_called_until_both_have_ended():
    cancel, calls = Cancel(), []

    def callback():
        calls.append(1)

    with cancel.interrupting(callback):
        with cancel.interrupting(callback):
            pass
        cancel.set()
    assert calls


def test_it_can_be_set_from_another_thread():
    cancel, reached = Cancel(), threading.Event()
    with cancel.interrupting(reached.set):
        thread = threading.Thread(target=cancel.set)
        thread.start()
        assert reached.wait(5)
        thread.join()
