"""What the peers in Python share: they answer requests, lines of words between tabs, on standard input.

    load KIND WORDS…   → ok ID           prepare something that can be run
    run ID REPS        → ok NANOS CPU    run it so often; how long all of that took, and the processor time of all threads
    save ID FILE.npy   → ok              run it once and write its first output
    drop ID            → ok
    grow KIND WORDS…   → ok LOADED RUN   prepare it in a process of its own, and run it there: bytes of memory that each
                                         added, at the peak
    first KIND WORDS…  → ok NANOS RUN    the same, run once: how long that took, and bytes of memory at the peak

An answer is one line: "ok …", or "error WHY". The first line that a peer writes is "ready DESCRIPTION". A peer that is
started with the words "once KIND WORDS…" prepares that, runs it once, and ends.
"""
import os
import sys
import time

# Threads that wait for work by spinning fall asleep within this time; until then they would take part in another job.
SETTLE = 0.05


def serve(description, load, save):
    """load(kind, *words) gives a function of no arguments; save(what it returned, file) writes that."""
    if sys.argv[1:2] == ["once"]:
        load(*sys.argv[2:])()
        return
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error
    jobs = []
    last = None

    def answer(*words):
        print(*words, sep="\t", file=out, flush=True)

    def handle(request, *words):
        nonlocal last
        if request == "load":
            jobs.append(load(*words))
            return (len(jobs) - 1,)
        if request == "grow":
            return apart(lambda: growth(load, words))
        if request == "first":
            return apart(lambda: first(load, words))
        number = int(words[0])
        job = jobs[number]
        if request == "run":
            reps = int(words[1])
            if last not in (None, number):
                time.sleep(SETTLE)
            last = number
            start, cpu = time.perf_counter_ns(), time.process_time_ns()
            for _ in range(reps):
                job()
            return time.perf_counter_ns() - start, time.process_time_ns() - cpu
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
            answer("error", explain(e))


def explain(e):
    return " ".join(f"{type(e).__name__}: {e}".split())


def apart(f):
    """What f gives, numbers, computed in a child. There must be no threads yet."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = "\t".join(map(str, f()))
        except Exception as e:
            text = "error " + explain(e)
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    if not text or text.startswith("error "):
        raise RuntimeError(text[6:] or "the child ended")
    return text.split("\t")


def growth(load, words):
    """How far the resident memory grew by loading, and at its peak while running."""
    begin = resident("VmRSS")
    job = load(*words)
    loaded = resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the peak is what is there now
    for _ in range(3):
        job()
    return loaded - begin, resident("VmHWM") - loaded


def first(load, words):
    """The time of a job's first run, and how far the resident memory had grown at its peak."""
    job = load(*words)
    begin = resident("VmRSS")
    start = time.perf_counter_ns()
    job()
    return time.perf_counter_ns() - start, resident("VmHWM") - begin


def resident(key):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise ValueError(f"no {key} in /proc/self/status")
