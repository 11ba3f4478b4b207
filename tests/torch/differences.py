"""What the tests that ranks run say of numbers that differ: where, by how much, and whether this
processor still computes the same twice. Numbers that differ at one lane of its vectors, here and
there, are more likely the machine's fault than the library's, and only the message can tell."""

import torch

REPEATS = 200
FAULTY = "THIS PROCESSOR IS FAULTY"


def processor():
    """What repeating the same sums on this processor says of it; FAULTY is in it where they
    differ."""
    generator = torch.Generator(device="cpu").manual_seed(1)
    a, b = (torch.randn(4096, generator=generator, device="cpu") for _ in range(2))
    small = torch.arange(4096, device="cpu") % 100
    works = {
        "sums": lambda: a + b,
        "products": lambda: a * b,
        "float16": lambda: small.to(torch.float16) + 1,
        "matrices": lambda: a.view(64, 64) @ b.view(64, 64),
    }
    wrong = []
    for name, work in works.items():
        first = work()
        odd = [lane for _ in range(REPEATS) for lane in (work() != first).flatten().nonzero().flatten().tolist()]
        if odd:
            wrong.append(f"{name} at {odd[:8]}")
    if wrong:
        return f"{FAULTY}: {REPEATS} repeats of one work differ: {'; '.join(wrong)}"
    return f"{REPEATS} repeats of sums, products, float16 and matrices are alike on this processor"


def difference(actual, expected):
    """How two tensors of the same shape differ, in words."""
    if actual.shape != expected.shape:
        return f"shapes {tuple(actual.shape)} and {tuple(expected.shape)} differ"
    got, want = (tensor.detach().cpu().flatten() for tensor in (actual, expected))
    places = (got != want).nonzero().flatten()
    shown = ", ".join(f"[{i}] {got[i].item()} for {want[i].item()}" for i in places[:12].tolist())
    lanes = sorted(set((places % 16).tolist()))
    return f"{len(places)} of {got.numel()} differ, places modulo 16 {lanes}: {shown}; {processor()}"
