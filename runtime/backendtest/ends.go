package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
)

// mostStrings bounds the strings of an input or output: Go clears the headers of strings at once, in about a millisecond
// for so many. Longer strings take longer, too.
const mostStrings = 1 << 18

var errStrings = errors.New("too many strings")

// mostText is the target of calls on strings.
const mostText = 2 * time.Millisecond

// texts reports whether an operator may take or give strings.
func texts(op *ir.Op) bool {
	for _, p := range slices.Concat(op.In, op.Out) {
		if p.Elem == "string" || slices.Contains(op.Elems[p.Elem], tensor.String) {
			return true
		}
	}
	return false
}

// mostWork is the longest that a call may work between two checks of its context, and after it is cancelled.
const mostWork = 2 * time.Millisecond

// Ends cancels calls of every operator of the registry. It enlarges a sample of each until a call takes 10 ms.
// Between two checks of its context, from the first to the last, such a call may work for 2 ms of processor time;
// cancelled at any moment, it must return the context's error within the same time. quick has the operators
// ("Shape") whose calls never take 10 ms, with reasons; they are checked all the same.
//
// These limits apply with the environment variable ESSMC_LONG_CANCEL, on an idle machine; that takes minutes and 12
// GB, one operator after the other. Without it, every sixth operator is checked, inputs have at most two million
// elements, and a call need not take long. Since other work on the machine affects the times, it may then also work
// for half of its time.
func Ends(t *testing.T, make func() runtime.Backend, quick map[string]string) {
	e := &ends{make: make, target: 10 * time.Millisecond, elems: 1 << 21, memory: 256 << 20}
	if e.strict = os.Getenv("ESSMC_LONG_CANCEL") != ""; e.strict {
		e.elems, e.memory = 1<<26, 2<<30
	}
	held := 0
	for i, op := range ops.Default.All() {
		if slices.Contains(samples.Refused[op.Domain], op.Name) || !e.strict && i%6 != 0 {
			continue
		}
		held++
		t.Run(fmt.Sprintf("%s-%d", op.FullName(), op.Since), func(t *testing.T) {
			if !e.strict {
				t.Parallel()
			}
			goruntime.LockOSThread()
			defer goruntime.UnlockOSThread()
			e.operator(t, op, quick[op.FullName()])
		})
	}
	if e.strict {
		t.Logf("figure: %d operators, calls of 10 ms and longer: at most %v between two checks (%s)", held, e.worst, e.where)
	}
}

type ends struct {
	make   func() runtime.Backend
	target time.Duration
	elems  int   // of the inputs, at most
	memory int64 // of a session
	strict bool  // calls must take the target; one call after the other

	worst time.Duration // if strict, of all calls
	where string        // the operator of worst
}

// operator looks for a sample that takes long enough, and cancels it.
func (e *ends) operator(t *testing.T, op *ir.Op, quick string) {
	var long *lasting
	for _, s := range samplesOf(op) {
		l := e.enlarged(op, s)
		if l == nil {
			continue
		}
		if long == nil || l.took > long.took {
			long = l
		}
		if long.took >= e.target {
			break
		}
	}
	if long == nil {
		if _, refused := e.refused(op); !refused {
			t.Fatal("no sample gives an answer")
		}
		return
	}
	target := e.target
	if texts(op) {
		target = min(target, mostText)
	}
	switch {
	case !e.strict:
	case long.took < target && quick == "":
		t.Errorf("the longest call takes %v, expected %v: %s", long.took, target, long.what)
	case long.took >= target && quick != "":
		t.Errorf("a call takes %v (%s), although %s", long.took, long.what, quick)
	}
	t.Logf("%v with %d checks, the longest work %v: %s", long.took, len(long.gaps), long.worst(), long.what)
	if worst := e.hold(t, long); e.strict && worst > e.worst {
		e.worst, e.where = worst, op.FullName()
	}
}

func (e *ends) refused(op *ir.Op) (error, bool) {
	for _, s := range samplesOf(op) {
		c, err := sampleCase(op, s, false)
		if err != nil {
			return err, false
		}
		if _, err := runtime.New(c.graph, runtime.Options{Backend: e.make()}); !errors.Is(err, runtime.ErrUnsupported) {
			return err, false
		}
	}
	return nil, true
}

// lasting is a call, and how it went.
type lasting struct {
	call
	what string
	run  func(ctx context.Context) error
}

// enlarged makes a sample large enough. It returns the call that took longest if none took long enough.
func (e *ends) enlarged(op *ir.Op, s opstest.Sample) *lasting {
	best := e.try(op, s, "as it is")
	if best == nil || best.took >= e.target {
		return best
	}
	better := func(l *lasting) bool {
		if l == nil || l.took <= best.took {
			return false
		}
		best = l
		return true
	}
	for _, g := range growths(op, s) {
		last, tried := best.took, 0
		for f := 8; f <= e.elems; f *= 8 {
			grown, ok := g.by(s, f)
			for ; ok && !e.fits(grown) && f > 8; f /= 2 { // the largest that fits is used
				grown, ok = g.by(s, f/2)
			}
			if !ok || !e.fits(grown) || f == tried {
				break
			}
			tried = f
			l := e.try(op, grown, fmt.Sprintf("%s times %d", g.name, f))
			if l == nil {
				break
			}
			better(l)
			if l.took >= e.target && l.err != nil { // too long: less of it may end by itself
				for part := f / 2; part > f/8 && l.err != nil; part /= 2 {
					if grown, ok := g.by(s, part); ok {
						if m := e.try(op, grown, fmt.Sprintf("%s times %d", g.name, part)); m != nil && m.took >= e.target {
							l, best = m, m
						}
					}
				}
				return best
			}
			if l.took >= e.target {
				return l
			}
			// Below a fifth of a millisecond, times are unreliable.
			// the operator is not what takes the time
			if f >= 1<<12 && l.took < last*3/2 && (l.took > time.Millisecond/5 || f >= 1<<18) {
				break
			}
			last = l.took
		}
	}
	return best
}

// fits reports whether inputs are small enough to be made.
func (e *ends) fits(s opstest.Sample) bool {
	n := 0
	for _, d := range s.In {
		switch x := d.(type) {
		case *tensor.Tensor:
			n += x.Len()
			if n > mostStrings && x.DType() == tensor.String {
				return false
			}
			for _, text := range x.Strings() {
				n += len(text) / 4
			}
		case *tensor.Sequence:
			n += 512 * len(x.Items)
			for _, item := range x.Items {
				if y := sampleTensor(item); y != nil {
					n += y.Len()
				}
			}
		}
	}
	return n <= e.elems
}

// try runs a sample. It returns nil if that fails for another reason than that it takes too long.
func (e *ends) try(op *ir.Op, s opstest.Sample, what string) *lasting {
	if e.strict { // memory of the last call would be counted as well
		goruntime.GC()
	}
	c, err := sampleCase(op, s, false)
	if err != nil {
		return nil
	}
	m, err := runtime.New(c.graph, runtime.Options{Backend: e.make(), Threads: 1, MaxMemory: e.memory})
	if err != nil {
		return nil
	}
	l := &lasting{what: fmt.Sprintf("%s %s (%.80s)", op.FullName(), what, describe(c.in))}
	l.run = func(ctx context.Context) error { // shapes are bound, too
		s := m.NewSession()
		defer s.Close()
		out, err := s.Run(ctx, c.in)
		for _, d := range out {
			if t := sampleTensor(d); t != nil && len(t.Strings()) > mostStrings {
				return errStrings
			}
		}
		return err
	}
	if l.call = watched(4*e.target, l.run); l.err != nil && !errors.Is(l.err, context.Canceled) {
		return nil
	}
	return l
}

// hold checks the times of a call, and cancels it at several moments. It returns the longest time between two checks.
func (e *ends) hold(t *testing.T, l *lasting) time.Duration {
	// What else the thread does counts too, where it happens: pages of memory, parts of garbage collections, other
	// tenants of the processor. It does not happen at the same place again and again.
	const tries = 12
	c := l.call
	most := mostWork
	if !e.strict {
		most = max(most, l.took/2)
	}
	for i := 1; i < tries && c.worst() > most; i++ {
		c.least(watched(4*e.target, l.run))
	}
	if worst := c.worst(); worst > most {
		at := slices.Index(c.gaps, worst)
		t.Errorf("%s: works for %v between two checks of its context\nfrom %s\nto %s", l.what, worst, where(c.callers[at]), where(c.callers[at+1]))
	}
	for _, part := range []float64{0.1, 0.5, 0.9} {
		moment := time.Duration(part * float64(l.took))
		late := time.Duration(math.MaxInt64)
		for range tries {
			c := watched(moment, l.run)
			if c.err != nil && !errors.Is(c.err, context.Canceled) && !errors.Is(c.err, errStrings) {
				t.Errorf("%s: cancelled after %v: %v", l.what, moment, c.err)
			}
			if late = min(late, max(0, c.took-moment)); late <= most {
				break
			}
		}
		if late > most {
			t.Errorf("%s: cancelled after %v, it works for %v", l.what, moment, late)
		}
	}
	return c.worst()
}

// call is how a call went, in processor time of its thread.
type call struct {
	err  error
	took time.Duration
	// gaps are the times before each check, and after the last. Calls of one thread check at the same places every time.
	gaps []time.Duration
	// callers are the callers at the start, and at the checks where a long gap starts or ends.
	callers map[int][]uintptr
}

func (c *call) worst() time.Duration { return slices.Max(c.gaps) }

// least makes c the smaller of both for each gap, or the better of the two if they have other gaps.
func (c *call) least(other call) {
	if len(other.gaps) != len(c.gaps) {
		if other.worst() < c.worst() {
			*c = other
		}
		return
	}
	for i, gap := range other.gaps {
		c.gaps[i] = min(c.gaps[i], gap)
	}
}

// watched runs a call with a context that is done after so much work.
func watched(end time.Duration, run func(ctx context.Context) error) call {
	w := &watch{Context: context.Background(), start: worktime.Thread(), end: end}
	w.callers = map[int][]uintptr{}
	err := run(w)
	_ = w.check()
	return call{err: err, took: w.last, gaps: w.gaps, callers: w.callers}
}

// watch is a context that is done after some work, and records the work between its checks. The run's own thread
// reads the time: other threads learn a thread's work only when its time slice ends.
type watch struct {
	context.Context
	start, end, last time.Duration
	gaps             []time.Duration
	here             []uintptr // callers of the last check
	callers          map[int][]uintptr
}

// Err is context.Canceled once the work is done.
func (w *watch) Err() error { return w.check() }

func (w *watch) check() error {
	now := worktime.Thread() - w.start
	var callers [24]uintptr
	n := goruntime.Callers(3, callers[:])
	i := len(w.gaps)
	if w.gaps = append(w.gaps, now-w.last); now-w.last > mostWork {
		w.callers[i], w.callers[i+1] = slices.Clone(w.here), slices.Clone(callers[:n])
	}
	w.last, w.here = now, append(w.here[:0], callers[:n]...)
	if now >= w.end {
		return context.Canceled
	}
	return nil
}

// where names callers within this module.
func where(callers []uintptr) string {
	var names []string
	frames := goruntime.CallersFrames(callers)
	for len(callers) > 0 {
		f, more := frames.Next()
		if _, name, ok := strings.Cut(f.Function, "/essmc/essmc/"); ok && !strings.Contains(name, "backendtest") {
			names = append(names, fmt.Sprintf("%s:%d", name, f.Line))
		}
		if !more || len(names) == 6 {
			break
		}
	}
	return strings.Join(names, " < ")
}
