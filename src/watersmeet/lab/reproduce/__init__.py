"""The papers' experiments again, on real Spark: `watersmeet reproduce`.

    setting      data and query of an experiment, its sizes and its budget          `fiveway`, `threeway`
    run          one setting under one strategy, from the first epoch to the end of the cleanup     `bench`
    record       what a run did: results, memory, spills, cleanup                   `record`
    experiment   runs -> tables, a picture, and the paper's claims with what was seen   `experiments/`, one file each

Time is logical: an epoch stands for a span of arrivals, so counts are the same on every machine. Only what the paper
says of the cost of a cleanup is also measured with a clock. Every run must end with the same multiset of results.
"""
