package emu

// watch is the observer that checks and counts.
type watch struct {
	checks
	counters
}

var _ observer = (*watch)(nil)

func (w *watch) launch(l *launch) {
	w.checks.launch(l)
	w.counters.launch(l)
}

func (w *watch) done(l *launch) { w.counters.done(l, w.distinct) }

func (w *watch) access(a *access) {
	w.counters.access(a)
	w.checks.access(a)
}

func (w *watch) freed(*allocation) {}
