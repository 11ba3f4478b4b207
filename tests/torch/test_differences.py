"""What tests say of numbers that differ, and that a machine which miscomputes is asked again."""

import conftest
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


def test_launched_again_where_the_machine_miscomputes(tmp_path, monkeypatch):
    monkeypatch.setattr(conftest, "PAUSES", (0, 0))
    monkeypatch.setattr(differences, "processors", lambda: "alike")  # whatever this one does
    script = tmp_path / "rank.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "ran = Path(__file__).with_suffix('.txt')\n"
        "ran.write_text((ran.read_text() if ran.exists() else '') + '.')\n"
        "if len(ran.read_text()) < int(sys.argv[1]): raise AssertionError(sys.argv[2])\n"
    )
    for last, words, code, times in (("2", differences.FAULTY, 0, 2), ("9", differences.FAULTY, 1, 3),
                                     ("2", "weights differ", 1, 1)):
        script.with_suffix(".txt").unlink(missing_ok=True)
        outcome = conftest.launch(1, script, last, words, prefix=[])
        assert (outcome.code, len(script.with_suffix(".txt").read_text())) == (code, times), (words, str(outcome))
