"""Float sums that travel: the names of a sum's parts and of the aggregate that adds parts.

A sum of floats is kept exactly. What is sent from one program to another are floats whose exact sum
it is: sum_part_1(x) is the sum rounded, sum_part_2(x) what is left rounded, and so on. The sum of
all parts of all programs, sum_of_parts(a, b, c), is then the sum of all rows, rounded once.
"""

from __future__ import annotations

SUM_PARTS = ("sum_part_1", "sum_part_2", "sum_part_3")
SUM_OF_PARTS = "sum_of_parts"
