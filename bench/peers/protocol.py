"""What the peers in Python share: they answer requests, lines of words between tabs, on standard input.

    load KIND WORDS…   → ok ID         prepare something that can be run
    run ID REPS        → ok NANOS      run it so often; how long all of that took
    save ID FILE.npy   → ok            run it once and write its first output
    drop ID            → ok

An answer is one line: "ok …", or "error WHY". The first line that a peer writes is "ready DESCRIPTION".
"""
import os
import sys
import time


def serve(description, load, save):
    """load(kind, *words) gives a function of no arguments; save(what it returned, file) writes that."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error
    jobs = []

    def answer(*words):
        print(*words, sep="\t", file=out, flush=True)

    def handle(request, *words):
        if request == "load":
            jobs.append(load(*words))
            return (len(jobs) - 1,)
        number = int(words[0])
        job = jobs[number]
        if request == "run":
            reps = int(words[1])
            start = time.perf_counter_ns()
            for _ in range(reps):
                job()
            return (time.perf_counter_ns() - start,)
        if request == "save":
            save(job(), words[1])
        elif request == "drop":
            jobs[number] = None
        else:
            raise ValueError(f"unknown request {request}")
        return ()

    answer("ready", description)
    for line in sys.stdin:
        try:
            answer("ok", *handle(*line.rstrip("\n").split("\t")))
        except Exception as e:  # whatever goes wrong is the answer
            answer("error", " ".join(f"{type(e).__name__}: {e}".split()))
