"""predict_plot.py: the picture of `pomona predict --plot`; the command carries this text.

predict_plot.py FILE.png < PREDICTION.json
"""

import json
import sys

try:
    import matplotlib
except ImportError as error:
    sys.exit(f"{sys.executable}: {error}")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def draw(prediction, path):
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 7), height_ratios=(1, 2))
    colours = {True: "#4c78a8", False: "#f58518"}
    for bar in prediction["timeline"]:
        begin, end = bar["begin_s"] * 1e3, bar["end_s"] * 1e3
        above.barh(int(bar["computing"]), end - begin, left=begin, color=colours[bar["computing"]],
                   edgecolor="white", linewidth=0.3)
    above.set_yticks([0, 1], ["collectives", "computing"])
    above.set_xlabel("ms")
    above.set_title(f"{prediction['kind']} on {prediction['ranks']} ranks of {prediction['hosts']} hosts: "
                    f"{prediction['step_s'] * 1e3:.1f} ms a step, "
                    f"{prediction['hidden'] * 100:.0f} % of the communication hidden")
    levers = prediction["levers"][::-1]
    ratios = [lever["samples_ratio"] for lever in levers]
    below.barh([lever["lever"] for lever in levers], ratios, color="#54a24b")
    for place, ratio in enumerate(ratios):
        below.text(ratio, place, f" {ratio:.2f}", va="center")
    below.axvline(1, color="grey", linewidth=0.8)
    below.set_xlabel("samples a second, of those without it")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


draw(json.load(sys.stdin), sys.argv[1])
