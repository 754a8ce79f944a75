"""What the experiments of the paper on lazy and active adaptation have in common: settings and treatments."""

from watersmeet.lab.reproduce.setting import Treatment
from watersmeet.lab.reproduce.strategies import REVERSE
from watersmeet.lab.reproduce.threeway import ThreeWay

EVEN = ThreeWay((3,), budget=384_000)
BY_THIRDS = ThreeWay((4, 2, 1), budget=384_000)
"""Two fifths of what an unlimited run holds in the end."""

PERCENTAGES = {f"{fraction:.0%}": Treatment("random", fraction) for fraction in (0.1, 0.3, 0.5, 1.0)}
LOW, HIGH = "low output rate", "high output rate"
LOW_AND_HIGH = {LOW: Treatment("local-output"), HIGH: Treatment(REVERSE)}
