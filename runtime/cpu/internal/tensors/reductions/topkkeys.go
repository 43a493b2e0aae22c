package reductions

import (
	"math"
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// topKKeys is topKPass for elements of at most 32 bits. An element and its index form one number, a key; the
// smallest comes first.
type topKKeys[T reduced] struct {
	n, k, inner int
	largest     bool
	sorts       bool // sort all elements of a row, because k is not much smaller
	key         func(x T) uint32
	x, y        []T
	at          []int64
}

// mostSorted is the maximum number of elements that are sorted without checking whether the run has ended.
const mostSorted = 1 << 13

func newTopKKeys[T reduced](d *lowering.Binding, s *lowering.Step, key func(x T) uint32) *record.TensorKernel {
	n, most, outer, inner, ok := topKShape(d, s)
	if !ok || n > math.MaxInt32 {
		return nil
	}
	p := &topKKeys[T]{n: n, k: most, inner: inner, largest: s.Node.Attrs.Bool("largest", true), key: key}
	p.sorts = n <= mostSorted && most > n/16
	room := p.k
	if p.sorts {
		room = p.n
	}
	x, y, at := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0), lowering.Output[int64](d, s, 1)
	return &record.TensorKernel{Scratch: 2 * room, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y, p.at = x.In(f), y.In(f), at.In(f)
		return e.Parallel(p, outer)
	}}
}

// floatKey orders float32: both zeros are equal, and NaN is the greatest.
func floatKey(x float32) uint32 {
	if x != x {
		return math.MaxUint32
	}
	b := math.Float32bits(x + 0)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

func integerKey[T int8 | uint8 | int32](x T) uint32 { return uint32(int32(x)) ^ 1<<31 }

func (p *topKKeys[T]) Do(w *record.Workspace, t int) {
	flip := uint32(0)
	if p.largest {
		flip = math.MaxUint32
	}
	for i := range p.inner {
		row := p.x[t*p.n*p.inner+i:]
		var keys []uint64
		if p.sorts {
			keys = tensors.Reinterpret[uint64](w.Scratch[:2*p.n])
			w.Steps.Step(p.n * bits.Len(uint(p.n)))
			for j := range keys {
				keys[j] = uint64(p.key(row[j*p.inner])^flip)<<32 | uint64(j)
			}
			slices.Sort(keys)
		} else {
			keys = tensors.Reinterpret[uint64](w.Scratch[:2*p.k])
			p.heap(w, keys, row, flip)
		}
		for j, key := range ops.All(w.Steps, keys[:p.k]) {
			at := (t*p.k+j)*p.inner + i
			from := int(uint32(key))
			if p.y != nil {
				p.y[at] = row[from*p.inner]
			}
			if p.at != nil {
				p.at[at] = int64(from)
			}
		}
	}
}

// heap fills keys with the smallest ones, in order. Before that, they are a heap with the greatest of them at the
// top.
func (p *topKKeys[T]) heap(w *record.Workspace, keys []uint64, row []T, flip uint32) {
	for j := range ops.Each(w.Steps, len(keys)) {
		keys[j] = uint64(p.key(row[j*p.inner])^flip)<<32 | uint64(j)
	}
	for j := p.k/2 - 1; j >= 0; j-- {
		w.Steps.Step(bits.Len(uint(p.k)))
		sinkKey(keys, j)
	}
	last := row[int(uint32(keys[0]))*p.inner]
	for lo, hi := range ops.Parts(w.Steps, p.n) {
		for j := max(lo, p.k); j < hi; j++ {
			x := row[j*p.inner]
			if p.largest && x <= last || !p.largest && x >= last {
				continue // the usual case
			}
			if key := uint64(p.key(x)^flip)<<32 | uint64(j); key < keys[0] {
				keys[0] = key
				w.Steps.Step(bits.Len(uint(p.k)))
				sinkKey(keys, 0)
				last = row[int(uint32(keys[0]))*p.inner]
			}
		}
	}
	for left := p.k - 1; left > 0; left-- {
		w.Steps.Step(bits.Len(uint(left)))
		keys[0], keys[left] = keys[left], keys[0]
		sinkKey(keys[:left], 0)
	}
}

// sinkKey moves entry j of a heap down to its position.
func sinkKey(keys []uint64, j int) {
	key := keys[j]
	for child := 2*j + 1; child < len(keys); child = 2*j + 1 {
		if child+1 < len(keys) && keys[child] < keys[child+1] {
			child++
		}
		if key >= keys[child] {
			break
		}
		keys[j] = keys[child]
		j = child
	}
	keys[j] = key
}
