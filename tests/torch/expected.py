"""An error that a call must end with, and words of its message."""


def expect(kind, words, function, *args, **kwargs):
    try:
        result = function(*args, **kwargs)
        if hasattr(result, "wait"):
            result.wait()
    except kind as error:
        text = str(error)
        missing = [word for word in words if word not in text]
        assert not missing, f"the message lacks {missing}: {text}"
        return text
    raise AssertionError(f"no {kind.__name__} from {function}")
