import viewmill as vm

rows = [(a, b) for a in range(3) for b in range(4)]
products = vm.factorize(rows)
assert sorted((row["c0"], row["c1"]) for row in products.rows()) == rows
assert products.values == 7  # written, instead of 24
