package data

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/essmc/essmc/internal/philox"
)

// DefaultMemory bounds the batches that are made ahead, in bytes, unless Options.Memory does.
const DefaultMemory = 64 << 20

// The numbers of the random streams of a seed, apart from those of transforms.
const (
	streamOrder = iota
	streamBatches
	streamSplit
	streamTransforms = 16 // the first transform; the others follow
)

// Options say how batches are made.
type Options struct {
	Batch    int    // samples of a batch
	Seed     uint64 // of the order and of transforms
	Shuffle  bool   // a new order in each epoch; otherwise that of the set
	DropLast bool   // leave out the last batch of an epoch if it has fewer samples

	// Buckets, if greater than 0, puts sequences of similar lengths together: each Buckets·Batch samples that follow
	// each other are sorted by their steps, cut into batches, and with Shuffle the batches of an epoch are shuffled.
	// Sequences that are read as a whole to be sorted need less padding the larger Buckets is, and are less random.
	Buckets int

	Padding    Padding
	Transforms []Transform // applied to each sample, in this order

	// Of each Of batches that follow each other, only those From … To-1 are made: the share of a process. The last
	// batches of an epoch that are fewer than Of are left out. Zeros: all batches are made.
	From, To, Of int

	Workers int   // goroutines that make batches ahead; 0: Next makes them
	Memory  int64 // bound on the bytes of batches made ahead, at least one batch; 0: DefaultMemory
}

// Position is a place in the batches of a loader: the next one is batch Batch of epoch Epoch. The other fields are what
// the order follows from; Seek compares them.
type Position struct {
	Epoch   int    `json:"epoch"`
	Batch   int    `json:"batch"`
	Samples int    `json:"samples"`
	Size    int    `json:"size"` // samples of a batch
	Seed    uint64 `json:"seed"`
	Shuffle bool   `json:"shuffle"`
	Buckets int    `json:"buckets"`
}

// Loader makes the batches of epoch after epoch. It is used by one goroutine at a time.
type Loader struct {
	set     Dataset
	spec    Spec // after the transforms
	options Options
	at      Position
	order   *order
	ahead   *ahead // nil: nothing is made ahead
}

// NewLoader returns a loader at the beginning of epoch 0. Loaders with workers are to be closed.
func NewLoader(set Dataset, o Options) (*Loader, error) {
	spec, n := set.Spec(), set.Len()
	switch {
	case n < 1 || n > MaxSamples:
		return nil, fmt.Errorf("data set: expected 1 to %d samples, found %d", MaxSamples, n)
	case o.Batch < 1:
		return nil, fmt.Errorf("batch: expected 1 or more samples, found %d", o.Batch)
	case o.Buckets < 0 || o.Workers < 0 || o.Memory < 0 || o.Padding.Steps < 0 || o.Padding.MultipleOf < 0:
		return nil, fmt.Errorf("buckets, workers, memory and padding: expected 0 or more, found %d, %d, %d, %d and %d",
			o.Buckets, o.Workers, o.Memory, o.Padding.Steps, o.Padding.MultipleOf)
	case spec.Token() && (o.Padding.Token < 0 || o.Padding.Token >= int64(spec.Tokens)):
		return nil, fmt.Errorf("padding: expected a token in [0, %d), found %d", spec.Tokens, o.Padding.Token)
	}
	if o.From == 0 && o.To == 0 && o.Of == 0 {
		o.To, o.Of = 1, 1
	}
	if o.From < 0 || o.From >= o.To || o.To > o.Of {
		return nil, fmt.Errorf("share of the batches: expected 0 ≤ from < to ≤ of, found %d, %d and %d", o.From, o.To, o.Of)
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	for i, t := range o.Transforms {
		var err error
		if spec, err = t.Check(spec); err != nil {
			return nil, fmt.Errorf("transform %d: %w", i, err)
		}
	}
	l := &Loader{set: set, spec: spec, options: o}
	l.at = Position{Samples: n, Size: o.Batch, Seed: o.Seed, Shuffle: o.Shuffle, Buckets: o.Buckets}
	if l.Batches() == 0 {
		return nil, fmt.Errorf("data set: %d samples make no batch of %d (times %d, the number of parts)", n, o.Batch, o.Of)
	}
	return l, nil
}

// Spec describes the samples of batches: those of the set, after the transforms.
func (l *Loader) Spec() Spec { return l.spec }

// Batches returns the number of batches of an epoch, of all shares together.
func (l *Loader) Batches() int {
	n := l.set.Len() / l.options.Batch
	if !l.options.DropLast && l.set.Len()%l.options.Batch > 0 {
		n++
	}
	return n / l.options.Of * l.options.Of
}

// Position returns the place of the next batch.
func (l *Loader) Position() Position { return l.at }

// Seek goes to a place that a loader of the same samples, in the same order, has returned. A share may be another one,
// if the place is a multiple of Of.
func (l *Loader) Seek(p Position) error {
	want := l.at
	for _, c := range []struct {
		name     string
		now, was any
	}{
		{"samples of the set", want.Samples, p.Samples}, {"samples of a batch", want.Size, p.Size}, {"seed", want.Seed, p.Seed},
		{"shuffle", want.Shuffle, p.Shuffle}, {"buckets", want.Buckets, p.Buckets},
	} {
		if c.now != c.was {
			return fmt.Errorf("position in the data: %s: expected %v, as now, found %v", c.name, c.now, c.was)
		}
	}
	if p.Epoch < 0 || p.Epoch > math.MaxUint32>>1 || p.Batch < 0 || p.Batch > l.Batches()+l.options.Of {
		return fmt.Errorf("position in the data: expected a batch up to %d, found batch %d of epoch %d",
			l.Batches(), p.Batch, p.Epoch)
	}
	l.Close()
	l.at = p
	return nil
}

// Next returns the next batch, or io.EOF at the end of an epoch; after that comes the next epoch. After any other error
// the position is as before.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	number := l.own(l.at.Batch)
	if number >= l.Batches() {
		l.Close()
		l.at.Epoch, l.at.Batch = l.at.Epoch+1, 0
		return nil, io.EOF
	}
	if l.order == nil || l.order.epoch != l.at.Epoch {
		l.order = l.newOrder(l.at.Epoch)
	}
	var b *Batch
	var err error
	if l.options.Workers == 0 {
		b, err = l.make(ctx, l.order, number)
	} else {
		if l.ahead == nil {
			l.ahead = l.start(number)
		}
		b, err = l.ahead.take(ctx)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.at.Batch = number + 1
	if l.at.Batch%l.options.Of == l.options.To {
		l.at.Batch += l.options.Of - l.options.To
	}
	return b, nil
}

// Epoch returns the batches that remain of the epoch. It ends after an error.
func (l *Loader) Epoch(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			b, err := l.Next(ctx)
			if err == io.EOF || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the goroutines. The loader can be used again.
func (l *Loader) Close() {
	if l.ahead != nil {
		l.ahead.stop()
		l.ahead = nil
	}
}

// own returns the first batch from the given one on that belongs to the loader's share.
func (l *Loader) own(number int) int {
	group, in := number/l.options.Of*l.options.Of, number%l.options.Of
	switch {
	case in < l.options.From:
		return group + l.options.From
	case in >= l.options.To:
		return group + l.options.Of + l.options.From
	}
	return number
}

// make makes a batch.
func (l *Loader) make(ctx context.Context, o *order, number int) (*Batch, error) {
	samples := o.samples(number)
	all := make([]Sample, len(samples))
	for k, i := range samples {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, err := l.set.Sample(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
		for t, f := range l.options.Transforms {
			r := philox.New(l.options.Seed, uint32(streamTransforms+t), uint32(i), uint32(o.epoch))
			if s, err = f.Apply(s, r); err != nil {
				return nil, fmt.Errorf("sample %d: transform %d: %w", i, t, err)
			}
		}
		if err := l.spec.Check(fmt.Sprintf("sample %d", i), s); err != nil {
			return nil, err
		}
		all[k] = s
	}
	b, err := Collate(l.spec, all, l.options.Padding)
	if err != nil {
		return nil, err
	}
	b.Samples, b.Epoch, b.Number = samples, o.epoch, number
	return b, nil
}

// order is the order of the samples and batches of an epoch.
type order struct {
	epoch   int
	size    int      // samples of a batch
	all     []uint32 // all samples; batch k is [k·size, (k+1)·size)
	batches []uint32 // the order of the batches; nil: as they are
}

// samples returns the samples of a batch.
func (o *order) samples(number int) []int {
	if o.batches != nil {
		number = int(o.batches[number])
	}
	part := o.all[number*o.size : min((number+1)*o.size, len(o.all))]
	out := make([]int, len(part))
	for k, i := range part {
		out[k] = int(i)
	}
	return out
}

// newOrder returns the order of an epoch.
func (l *Loader) newOrder(epoch int) *order {
	o := &order{epoch: epoch, size: l.options.Batch, all: make([]uint32, l.set.Len())}
	for i := range o.all {
		o.all[i] = uint32(i)
	}
	if l.options.Shuffle {
		shuffle(o.all, philox.New(l.options.Seed, streamOrder, 0, uint32(epoch)))
	}
	if l.options.Buckets == 0 {
		return o
	}
	steps := make([]int32, len(o.all))
	for i := range steps {
		steps[i] = int32(min(l.set.Steps(i), math.MaxInt32))
	}
	for part := range slices.Chunk(o.all, l.options.Buckets*l.options.Batch) {
		slices.SortStableFunc(part, func(a, b uint32) int { return int(steps[a]) - int(steps[b]) })
	}
	if !l.options.Shuffle {
		return o
	}
	o.batches = make([]uint32, (len(o.all)+o.size-1)/o.size)
	for k := range o.batches {
		o.batches[k] = uint32(k)
	}
	whole := o.batches // a smaller batch stays the last one, where DropLast finds it
	if len(o.all)%o.size > 0 {
		whole = whole[:len(whole)-1]
	}
	shuffle(whole, philox.New(l.options.Seed, streamBatches, 0, uint32(epoch)))
	return o
}

func shuffle(v []uint32, r *philox.Source) {
	r.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
}
