"""A regression over a join that stays fresh: homes come and go, the model follows.

python examples/regression.py
"""

import random

import viewmill as vm

random.seed(7)

with vm.connect() as mill:
    mill.sql("CREATE TABLE homes (postcode INT, rooms INT, garden DOUBLE, price DOUBLE)")
    mill.sql("CREATE TABLE areas (postcode INT, income DOUBLE)")
    mill.sql("""
        CREATE MATERIALIZED VIEW moments AS
        SELECT cofactor(price, rooms, garden, income) AS c
        FROM homes JOIN areas ON homes.postcode = areas.postcode
    """)
    incomes = {postcode: random.uniform(20, 60) for postcode in range(50)}
    mill.insert("areas", list(incomes.items()))

    def home() -> tuple[int, int, float, float]:
        """A home whose price is 50 a room, 2 a square metre of garden, 3 for its area's income."""
        postcode, rooms, garden = random.randrange(50), random.randint(1, 6), random.uniform(0, 90)
        price = 50 * rooms + 2 * garden + 3 * incomes[postcode] + random.gauss(0, 5)
        return postcode, rooms, garden, price

    model = vm.models.LinearRegression(
        mill["moments"], "price", ["rooms", "garden", "income"], method="gradient"
    )
    homes: list[tuple[int, int, float, float]] = []
    for day in range(5):
        new = [home() for _ in range(200)]
        homes += new
        mill.insert("homes", new)
        mill.delete("homes", homes[:50])
        del homes[:50]
        model.refresh()
        shown = ", ".join(f"{name} {value:.2f}" for name, value in model.coefficients.items())
        print(f"day {day}: {model.n} homes, {shown}, R² {model.r2:.4f}, {model.steps} steps")
    assert abs(model.coefficients["rooms"] - 50) < 1
    assert mill["moments"].verify() == []
