package moves

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{
		Op: "Transpose",
		Tensor: record.TensorKind{Make: record.Either(record.Shaped(transposeKernel),
			moving{strides: transposed}.kernel)},
	})
}

// transposeKernel permutes axes.
func transposeKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	perm := s.Node.Attrs.Ints("perm", nil)
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		rank := len(in[0])
		order := make([]int, rank)
		for i := range order {
			order[i] = rank - 1 - i
			if perm != nil {
				if len(perm) != rank {
					return nil
				}
				k, err := ops.Axis(perm[i], rank)
				if err != nil {
					return nil
				}
				order[i] = k
			}
		}
		t := NewTransposition(in[0], order)
		t.node = s.Source
		slots := tensors.UnaryOf(d, s)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			t.Src, t.Dst = slots.In(e.Frame())
			return e.Parallel(t, t.Items)
		}}
	}
}

// axis is an axis of a transposition: its size, and its strides in the source and in the result.
type axis struct{ n, src, dst int }

// transposition copies numbers to another order of axes, in blocks. A block is a run of contiguous numbers, or a
// transposed matrix.
type transposition struct {
	node     *ir.Node
	Src, Dst []float32

	outer  []axis // of blocks
	blocks int    // number of blocks
	run    int    // numbers of a contiguous block; 0 if a block is a matrix
	row    axis   // rows of a matrix in the source; contiguous in the result
	col    axis   // columns; contiguous in the source
	per    int    // blocks in a work item
	parts  int    // work items of a large block; per is then 1
	share  int    // rows or columns of a matrix in a part, whichever are more
	Items  int
}

// NewTransposition plans the transposition of a source of the given shape. Axis i of the result is axis order[i] of the
// source.
func NewTransposition(shape, order []int) *transposition {
	t := &transposition{parts: 1}
	strides := ops.Strides(shape)
	dst := 1
	for _, i := range slices.Backward(order) {
		n := shape[i]
		if n == 1 {
			continue
		}
		a := axis{n, strides[i], dst}
		dst *= n
		if k := len(t.outer) - 1; k >= 0 && t.outer[k].src*t.outer[k].n == a.src { // neighbours remain neighbours
			t.outer[k].n *= n
			continue
		}
		t.outer = append(t.outer, a)
	}
	if dst == 0 {
		return t
	}
	size := 1
	switch at := slices.IndexFunc(t.outer, func(a axis) bool { return a.src == 1 }); at {
	case -1: // a single number
		t.run = 1
	case 0:
		t.run = t.outer[0].n
		size = t.run
		t.outer = t.outer[1:]
	default:
		t.row, t.col = t.outer[0], t.outer[at]
		size = t.row.n * t.col.n
		t.outer = slices.Delete(t.outer, at, at+1)[1:]
	}
	t.blocks = dst / size
	t.per = max(1, tensors.ItemNumbers/size)
	t.Items = (t.blocks + t.per - 1) / t.per
	if t.run == 0 {
		long, short := max(t.row.n, t.col.n), min(t.row.n, t.col.n)
		t.share = max(8, tensors.ItemNumbers/short&^7)
		t.parts = (long + t.share - 1) / t.share
		t.Items *= t.parts
	}
	return t
}

// Do copies some blocks, or a part of one.
func (t *transposition) Do(w *record.Workspace, k int) {
	w.Node = t.node
	part := k % t.parts
	k /= t.parts
	for b := k * t.per; b < min(t.blocks, (k+1)*t.per); b++ {
		src, dst, rest := 0, 0, b
		for _, a := range t.outer {
			i := rest % a.n
			rest /= a.n
			src, dst = src+i*a.src, dst+i*a.dst
		}
		if t.run > 0 {
			ops.Put(w.Steps, t.Dst[dst:dst+t.run], t.Src[src:])
			continue
		}
		rows, cols, from := t.row.n, t.col.n, part*t.share
		if rows > cols {
			rows = min(t.share, rows-from)
			src, dst = src+from*t.row.src, dst+from
		} else {
			cols = min(t.share, cols-from)
			src, dst = src+from, dst+from*t.col.dst
		}
		kernel.Transpose(t.Dst[dst:], t.col.dst, t.Src[src:], t.row.src, rows, cols)
	}
}
