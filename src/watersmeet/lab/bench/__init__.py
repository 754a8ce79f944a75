"""The benchmarks: the same data and the same query for us and for others, in one run, results counted and compared.

    suites      what is compared: data, query, contenders, targets      (`threeway`, `growth`, `floor`, ...)
    contenders  who is compared, and how each goes about it
    pipeline    a query, written once, in the words of every contender
    contender   one contender's run, in a process of its own             (`session`, `delivery`, `place`)
    measure     starts that process and watches its memory
    report      ratios against targets, as text and as JSON

Every contender starts cold, with the same files, cores and heap. A run counts from the start of the query to its end:
warm-up is included, the start of the session is not.
"""
