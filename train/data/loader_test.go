package data

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/essmc/essmc/ir/tensor"
)

// counting is a set whose sample i has 1 + i%7 steps of the number i.
type counting struct {
	n    int
	read atomic.Int64
	fail func(ctx context.Context, i int) error
}

func (c *counting) Len() int        { return c.n }
func (c *counting) Steps(i int) int { return 1 + i%7 }
func (c *counting) Spec() Spec      { return Spec{Features: 1, Inputs: 1, Classes: numbered(10)} }

func (c *counting) Sample(ctx context.Context, i int) (Sample, error) {
	c.read.Add(1)
	if c.fail != nil {
		if err := c.fail(ctx, i); err != nil {
			return Sample{}, err
		}
	}
	x := slices.Repeat([]float32{float32(i)}, c.Steps(i))
	return Sample{[]*tensor.Tensor{tensor.FromSlice(x, len(x), 1)}, class(i % 10)}, nil
}

// noise adds a random number to each step.
type noise struct{}

func (noise) Check(s Spec) (Spec, error) { return s, nil }

func (noise) Apply(x Sample, r *Random) (Sample, error) {
	return pixels(x, func(dst, src []float32) {
		for i, v := range src {
			dst[i] = v + float32(r.Float64())
		}
	}), nil
}

// digest is a hash of all that a batch has.
func digest(b *Batch) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, b.Samples, b.Epoch, b.Number, b.Input.Shape(), b.Lengths.Shape(), b.Target.Shape())
	for _, t := range []*tensor.Tensor{b.Input, b.Lengths, b.Target} {
		binary.Write(h, binary.LittleEndian, t.Bytes())
	}
	return h.Sum64()
}

// batches returns the digests of the next batches; 0 stands for the end of an epoch.
func batches(t *testing.T, l *Loader, n int) []uint64 {
	t.Helper()
	var out []uint64
	for range n {
		b, err := l.Next(t.Context())
		switch {
		case err == io.EOF:
			out = append(out, 0)
		case err != nil:
			t.Fatal(err)
		default:
			out = append(out, digest(b))
		}
	}
	return out
}

func newLoader(t *testing.T, set Dataset, o Options) *Loader {
	t.Helper()
	l, err := NewLoader(set, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// TestEpochs checks that each epoch has each sample once, in the set's order without Shuffle, and that padding is as
// asked for.
func TestEpochs(t *testing.T) {
	set := &counting{n: 23}
	for _, o := range []Options{{Batch: 5}, {Batch: 5, DropLast: true}, {Batch: 5, Shuffle: true, Seed: 3},
		{Batch: 5, Shuffle: true, Buckets: 2}, {Batch: 4, Buckets: 3, Padding: Padding{MultipleOf: 4}},
		{Batch: 5, Shuffle: true, Buckets: 2, DropLast: true}, {Batch: 23, Padding: Padding{Steps: 9, Number: -1}}} {
		l := newLoader(t, set, o)
		var orders [][]int
		for range 2 {
			var all []int
			count := 0
			for b, err := range l.Epoch(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				count++
				all = append(all, b.Samples...)
				checkBatch(t, set, o, b)
			}
			want := 23
			if o.DropLast {
				want = 20
			}
			if sorted := slices.Compact(slices.Sorted(slices.Values(all))); len(sorted) != want || len(all) != want || count != l.Batches() {
				t.Errorf("%+v: %d batches of the samples %v", o, count, all)
			}
			orders = append(orders, all)
		}
		if same := slices.Equal(orders[0], orders[1]); same == o.Shuffle {
			t.Errorf("%+v: orders of two epochs: %v", o, orders)
		}
		if !o.Shuffle && o.Buckets == 0 && !slices.IsSorted(orders[0]) {
			t.Errorf("%+v: order %v", o, orders[0])
		}
	}
}

func checkBatch(t *testing.T, set *counting, o Options, b *Batch) {
	t.Helper()
	longest := 0
	for _, i := range b.Samples {
		longest = max(longest, set.Steps(i))
	}
	if o.Padding.Steps > 0 {
		longest = 9
	}
	if o.Padding.MultipleOf > 0 {
		longest = (longest + 3) / 4 * 4
	}
	if !slices.Equal(b.Input.Shape(), []int{len(b.Samples), longest, 1}) {
		t.Fatalf("%+v: input %s of the samples %v, expected %d steps", o, b.Input, b.Samples, longest)
	}
	x := tensor.Data[float32](b.Input)
	for k, i := range b.Samples {
		if got := tensor.Data[int64](b.Lengths)[k]; got != int64(set.Steps(i)) {
			t.Errorf("sample %d has the length %d", i, got)
		}
		if got := tensor.Data[int64](b.Target)[k]; got != int64(i%10) {
			t.Errorf("sample %d has the target %d", i, got)
		}
		for s := range longest {
			want := float32(i)
			if s >= set.Steps(i) {
				want = o.Padding.Number
			}
			if x[k*longest+s] != want {
				t.Errorf("sample %d, step %d: %v, expected %v", i, s, x[k*longest+s], want)
			}
		}
	}
}

// TestBucketsPadLess checks that buckets reduce padding: samples of 1 to 7 steps have 4 on average.
func TestBucketsPadLess(t *testing.T) {
	padded := func(buckets int) (n int) {
		l := newLoader(t, &counting{n: 700}, Options{Batch: 10, Shuffle: true, Buckets: buckets})
		for b, err := range l.Epoch(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n += b.Input.Len()
		}
		return n
	}
	if without, with := padded(0), padded(35); without < 4500 || with > 3100 {
		t.Errorf("700 sequences with 2800 steps: %d steps padded by 10, %d in buckets", without, with)
	}
}

// TestOrderIsFixed checks orders that a separate program in Python has computed: checkpoints of older versions go on
// with them.
func TestOrderIsFixed(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []int
	}{
		{Options{Batch: 12, Seed: 1, Shuffle: true}, []int{4, 7, 1, 0, 3, 2, 8, 11, 6, 5, 9, 10}},
		{Options{Batch: 3, Seed: 1 << 40, Shuffle: true, Buckets: 2}, []int{0, 8, 1}},
	} {
		l := newLoader(t, &counting{n: 12}, c.o)
		b, err := l.Next(t.Context())
		if err != nil || !slices.Equal(b.Samples, c.want) {
			t.Errorf("%+v: %v, %v, expected %v", c.o, b.Samples, err, c.want)
		}
	}
	if got, want := Permutation(10, 5), []int{6, 9, 3, 2, 5, 0, 8, 1, 4, 7}; !slices.Equal(got, want) {
		t.Errorf("permutation %v, expected %v", got, want)
	}
}

// TestResume goes on from each position of two epochs, stored as JSON, with another number of goroutines.
func TestResume(t *testing.T) {
	for _, o := range []Options{{Batch: 3, Shuffle: true, Seed: 9, Transforms: []Transform{noise{}, noise{}}},
		{Batch: 2, Shuffle: true, Buckets: 3, Seed: 1 << 63}, {Batch: 4, DropLast: true}} {
		const n = 20
		first := newLoader(t, &counting{n: 17}, o)
		all := batches(t, first, n)
		walk := newLoader(t, &counting{n: 17}, o)
		for k := range n {
			stored, err := json.Marshal(walk.Position())
			if err != nil {
				t.Fatal(err)
			}
			var p Position
			if err := json.Unmarshal(stored, &p); err != nil {
				t.Fatal(err)
			}
			o.Workers = k % 4
			l := newLoader(t, &counting{n: 17}, o)
			if err := l.Seek(p); err != nil {
				t.Fatal(err)
			}
			if got := batches(t, l, n-k); !slices.Equal(got, all[k:]) {
				t.Fatalf("%+v: from %s: %x, expected %x", o, stored, got, all[k:])
			}
			batches(t, walk, 1)
		}
		distinct := map[uint64]bool{}
		for _, d := range all {
			distinct[d] = true
		}
		if len(distinct) < n*3/4 {
			t.Errorf("%+v: %d different batches of %d", o, len(distinct), n)
		}
	}
}

// TestWorkers checks that goroutines, and the bound on what they make, change nothing.
func TestWorkers(t *testing.T) {
	o := Options{Batch: 3, Shuffle: true, Transforms: []Transform{noise{}}}
	want := batches(t, newLoader(t, &counting{n: 50}, o), 40)
	for _, o.Workers = range []int{1, 2, 7, 64} {
		for _, o.Memory = range []int64{1, 200, 0} {
			if got := batches(t, newLoader(t, &counting{n: 50}, o), 40); !slices.Equal(got, want) {
				t.Errorf("%d workers, %d bytes: other batches", o.Workers, o.Memory)
			}
		}
	}
}

// TestAheadIsBounded checks how many batches are made ahead if nobody takes them.
func TestAheadIsBounded(t *testing.T) {
	set := &counting{n: 1000}
	// A batch has at most 10·7·4 bytes of input, 80 of lengths and 80 of targets.
	l := newLoader(t, set, Options{Batch: 10, Workers: 8, Memory: 5 * 440, Padding: Padding{Steps: 7}})
	if _, err := l.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for set.read.Load() < 60 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	l.ahead.mu.Lock()
	held, made := l.ahead.held, len(l.ahead.made)
	l.ahead.mu.Unlock()
	if n := set.read.Load(); n != 60 || held > 5*440 || made != 5 {
		t.Errorf("%d samples were read, %d batches of %d bytes are held; expected 5 batches besides the one that was taken", n, made, held)
	}
}

// TestEstimate compares estimates with batches.
func TestEstimate(t *testing.T) {
	corpus, err := NewCorpus(make([]int64, 31), 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []Dataset{&counting{n: 23}, pairs{}, corpus} {
		for _, p := range []Padding{{}, {Steps: 9}, {MultipleOf: 4}} {
			l := newLoader(t, set, Options{Batch: 2, Padding: p})
			for b, err := range l.Epoch(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if e := l.estimate(b.Samples); e != b.Bytes() {
					t.Errorf("%T, %+v: %d bytes are estimated, a batch has %d", set, p, e, b.Bytes())
				}
			}
		}
	}
}

// TestCancel checks that a context ends Next while a sample is read, and that the loader goes on from there.
func TestCancel(t *testing.T) {
	for _, workers := range []int{0, 3} {
		var once sync.Once
		reached := make(chan struct{})
		block := make(chan struct{})
		set := &counting{n: 20}
		set.fail = func(ctx context.Context, i int) error {
			if i != 7 {
				return nil
			}
			once.Do(func() { close(reached) })
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-block:
				return nil
			}
		}
		want := batches(t, newLoader(t, &counting{n: 20}, Options{Batch: 5}), 4)
		l := newLoader(t, set, Options{Batch: 5, Workers: workers})
		got := batches(t, l, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		ends := errors.New("enough")
		go func() {
			<-reached
			cancel(ends)
		}()
		if _, err := l.Next(ctx); !errors.Is(err, ends) {
			t.Errorf("%d workers: error %v, expected %v", workers, err, ends)
		}
		close(block)
		if got = append(got, batches(t, l, 3)...); !slices.Equal(got, want) {
			t.Errorf("%d workers: %x, expected %x", workers, got, want)
		}
	}
}

// TestFailure checks that an error names the sample, and that the loader goes on from there once the cause is gone.
func TestFailure(t *testing.T) {
	for _, workers := range []int{0, 3} {
		set, broken := &counting{n: 20}, errors.New("broken")
		set.fail = func(_ context.Context, i int) error {
			if i == 12 {
				return broken
			}
			return nil
		}
		l := newLoader(t, set, Options{Batch: 5, Workers: workers})
		got := batches(t, l, 2)
		for range 2 {
			if _, err := l.Next(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "sample 12") {
				t.Errorf("%d workers: error %v", workers, err)
			}
		}
		l.Close()
		set.fail = nil
		if got = append(got, batches(t, l, 3)...); !slices.Equal(got, batches(t, newLoader(t, set, Options{Batch: 5}), 5)) {
			t.Errorf("%d workers: other batches after an error", workers)
		}
	}
}

// TestNoGoroutinesLeft checks that Close ends the workers.
func TestNoGoroutinesLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		l := newLoader(t, &counting{n: 100}, Options{Batch: 1, Workers: 5, Memory: 10})
		batches(t, l, 3)
		l.Close()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// TestShares checks that the shares of several processes are the batches of one, with fewer than Of at the end left
// out, and that a share resumes from the position of another one between two groups.
func TestShares(t *testing.T) {
	all := batches(t, newLoader(t, &counting{n: 31}, Options{Batch: 3, Shuffle: true}), 24) // 11 batches, twice
	for _, workers := range []int{0, 2} {
		o := Options{Batch: 3, Shuffle: true, Workers: workers, Of: 4}
		shares := [][2]int{{0, 1}, {1, 3}, {3, 4}}
		var loaders []*Loader
		for _, s := range shares {
			o.From, o.To = s[0], s[1]
			loaders = append(loaders, newLoader(t, &counting{n: 31}, o))
		}
		var got []uint64
		for range 2 {
			for range 2 { // groups
				for k, l := range loaders {
					got = append(got, batches(t, l, shares[k][1]-shares[k][0])...)
				}
				p := loaders[0].Position()
				if p.Batch%4 != 0 || loaders[2].Position() != p {
					t.Errorf("position %+v, of another share %+v", p, loaders[2].Position())
				}
				if err := loaders[1].Seek(p); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range loaders {
				if end := batches(t, l, 1); end[0] != 0 {
					t.Fatal("expected the end of the epoch after two groups")
				}
			}
		}
		if want := append(slices.Clone(all[:8]), all[12:20]...); !slices.Equal(got, want) {
			t.Errorf("%d workers: %x, expected %x", workers, got, want)
		}
	}
}

func TestRefusedLoaders(t *testing.T) {
	for want, o := range map[string]Options{
		"batch: expected 1 or more samples, found 0":                   {},
		"share of the batches: expected 0 ≤ from < to ≤ of":            {Batch: 1, From: 1, To: 1, Of: 2},
		"30 samples make no batch of 31":                               {Batch: 31, DropLast: true},
		"found -1, 0, 0, 0 and 0":                                      {Batch: 1, Buckets: -1},
		"transform 0: normalize: expected the mean and standard":       {Batch: 1, Transforms: []Transform{&Normalize{}}},
		"transform 1: permute: expected samples of 3 steps":            {Batch: 1, Transforms: []Transform{noise{}, NewPermute(3, 1)}},
		"transform 0: every: expected 1 or more steps":                 {Batch: 1, Transforms: []Transform{Every{}}},
		"transform 0: flip: expected pictures of 2 × 2 × 1, found 0 ×": {Batch: 1, Transforms: []Transform{&Flip{2, 2, 1}}},
	} {
		if _, err := NewLoader(&counting{n: 30}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
	l := newLoader(t, &counting{n: 30}, Options{Batch: 4, Seed: 1})
	for want, change := range map[string]func(p *Position){
		"samples of the set: expected 30, as now, found 31": func(p *Position) { p.Samples = 31 },
		"samples of a batch: expected 4":                    func(p *Position) { p.Size = 1 },
		"seed: expected 1, as now, found 2":                 func(p *Position) { p.Seed = 2 },
		"shuffle: expected false":                           func(p *Position) { p.Shuffle = true },
		"buckets: expected 0":                               func(p *Position) { p.Buckets = 1 },
		"found batch 10 of epoch 0":                         func(p *Position) { p.Batch = 10 },
		"found batch 0 of epoch -1":                         func(p *Position) { p.Epoch = -1 },
	} {
		p := l.Position()
		change(&p)
		if err := l.Seek(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", p, err, want)
		}
	}
	if l.Position() != (Position{Samples: 30, Size: 4, Seed: 1}) {
		t.Errorf("position %+v after errors", l.Position())
	}
	long := newLoader(t, &counting{n: 30}, Options{Batch: 30, Padding: Padding{Steps: 6}})
	if _, err := long.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "expected sequences of at most 6 steps (padding), found one of 7") {
		t.Errorf("error %v", err)
	}
}

func TestSplit(t *testing.T) {
	set := &counting{n: 100}
	parts, err := Split(set, 4, 60, -1, 15)
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for k, n := range []int{60, 25, 15} {
		if parts[k].Len() != n {
			t.Fatalf("part %d has %d samples, expected %d", k, parts[k].Len(), n)
		}
		for i := range n {
			s, err := parts[k].Sample(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			v := int(tensor.Data[float32](s.Inputs[0])[0])
			if parts[k].Steps(i) != set.Steps(v) {
				t.Errorf("sample %d has %d steps", v, parts[k].Steps(i))
			}
			all = append(all, v)
		}
	}
	if !slices.Equal(all, Permutation(100, 4)) || slices.IsSorted(all) {
		t.Errorf("parts are %v", all)
	}
	if slices.Sort(all); !slices.Equal(slices.Compact(all), ascending(100)) {
		t.Errorf("parts overlap: %v", all)
	}
	for _, sizes := range [][]int{{101}, {60, 41}, {-1, -1}, {-2}} {
		if _, err := Split(set, 4, sizes...); err == nil {
			t.Errorf("sizes %v: expected an error", sizes)
		}
	}
	if _, err := Subset(set, []int{0, 100}); err == nil {
		t.Error("expected an error for a sample that is not there")
	}
	if sub, err := Subset(set, []int{5}); err != nil || !reflect.DeepEqual(sub.Spec(), set.Spec()) {
		t.Errorf("subset: %v", err)
	}
}

// ascending returns the numbers below n in order.
func ascending(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
