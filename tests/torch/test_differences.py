"""What tests say of numbers that differ, and of a processor that does not repeat itself."""

import differences
import torch


def test_words_of_a_difference():
    want = torch.arange(40, dtype=torch.float16)
    got = want.clone()
    got[11], got[35] = 1, 2
    text = differences.difference(got, want)
    assert text.startswith("2 of 40 differ, places modulo 16 [3, 11]: [11] 1.0 for 11.0, [35] 2.0 for 35.0; "), text
    assert "shapes (40,) and (3,) differ" in differences.difference(want, torch.zeros(3))


def test_a_processor_that_does_not_repeat_itself(monkeypatch):
    calls = []

    def sum_in_one_lane(self, other):  # wrong in each third call
        calls.append(other)
        result = torch.sub(self, -other)
        if len(calls) % 3 == 0:
            result[11] += 1
        return result

    monkeypatch.setattr(torch.Tensor, "__add__", sum_in_one_lane)
    assert f"{differences.FAULTY}: 200 repeats of one work differ: sums at [11, 11" in differences.processor()
