"""What writes the source of triggers, for every strategy.

takes  expressions and relations of the algebra
gives  lines of generated Python over structures (`source`, `scalar`, `words`), payloads of
       aggregates (`aggregates`, `moments`, `percentiles`), and whole programs over one scan
       (`scan_program`) or over several states (`writer`, `sinks`)
next   strategies, which choose the states and put the lines together
"""
