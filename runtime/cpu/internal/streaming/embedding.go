package streaming

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Embedding",
		Streaming: record.StreamingKind{Make: streamingEmbedding, Constant: []int{1}}})
}

// embedding looks up the rows of a table by token.
type embedding struct {
	record.StreamingGrid
	s     *lowering.Step
	table []float32
	vocab int
	width int
	shape []int // of the tokens, which have one of two types
	wide  lowering.Slot[int64]
	short lowering.Slot[int32]
	y     lowering.Slot[float32]
}

func streamingEmbedding(s *lowering.Step) record.StreamingMaker {
	if len(s.ConstShape(1)) != 2 {
		return nil
	}
	table := record.Numbers(s, 1)
	vocab, width := s.ConstShape(1)[0], s.ConstShape(1)[1]
	return func(d *lowering.Binding) record.StreamingKernel {
		ids := d.ShapeOf(s, 0)
		if ids == nil || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &embedding{s: s, table: table, vocab: vocab, width: width, shape: ids}
		k.y = lowering.Output[float32](d, s, 0)
		switch d.DType(s.In[0]) {
		case tensor.Int64:
			k.wide = lowering.Input[int64](d, s, 0)
		case tensor.Int32:
			k.short = lowering.Input[int32](d, s, 0)
		default:
			return nil
		}
		var per int
		var ok bool
		if k.Batch, k.Length, per, ok = d.Along(s.In[0]); !ok || per != 1 {
			k.Batch = 1
			k.Length, _ = tensor.Size(ids)
		}
		return k
	}
}

// Start checks all tokens.
func (k *embedding) Start() error {
	f := k.E.Frame()
	n, _ := tensor.Size(k.shape)
	for i := range ops.Each(k.E.Steps(), n) {
		if id := k.token(f, i); id < 0 || id >= int64(k.vocab) {
			return essm.TokenError(k.s.In[0].Name, k.shape, i, id, k.vocab)
		}
	}
	return nil
}

func (k *embedding) token(f *lowering.Frame, i int) int64 {
	if !k.wide.Absent() {
		return k.wide.In(f)[i]
	}
	return int64(k.short.In(f)[i])
}

func (k *embedding) Steps(from, to int) error {
	k.From, k.To = from, to
	return k.E.Parallel(k, k.Items())
}

func (k *embedding) Do(w *record.Workspace, t int) {
	sample, from, n := k.StreamingGrid.ItemAt(t)
	f := k.E.Frame()
	y := k.y.In(f)[k.E.At(k.s.Out[0], sample, from, k.Length)*k.width:]
	for i := range n {
		id := int(k.token(f, sample*k.Length+from+i))
		ops.Put(w.Steps, y[i*k.width:(i+1)*k.width], k.table[id*k.width:])
	}
}
