package streaming

import (
	"github.com/essmc/essmc/ir/tensor"
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
	wide  []int64
	short []int32
}

func streamingEmbedding(s *lowering.Step) record.StreamingMaker {
	if len(s.ConstShape(1)) != 2 {
		return nil
	}
	table := s.Constant(1)
	vocab, width := s.ConstShape(1)[0], s.ConstShape(1)[1]
	return func(d *lowering.Binding) record.StreamingKernel {
		ids := d.ShapeOf(s, 0)
		if ids == nil || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &embedding{s: s, table: table, vocab: vocab, width: width}
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
	ids := k.E.Datum(k.s.In[0]).(*tensor.Tensor)
	k.wide, k.short = nil, nil
	if ids.DType() == tensor.Int64 {
		k.wide = tensor.Data[int64](ids)
	} else {
		k.short = tensor.Data[int32](ids)
	}
	for i := range ids.Len() {
		if id := k.token(i); id < 0 || id >= int64(k.vocab) {
			return essm.TokenError(k.s.In[0].Name, ids.Shape(), i, id, k.vocab)
		}
	}
	return nil
}

func (k *embedding) token(i int) int64 {
	if k.wide != nil {
		return k.wide[i]
	}
	return int64(k.short[i])
}

func (k *embedding) Steps(from, to int) error {
	k.From, k.To = from, to
	return k.E.Parallel(k, k.Items())
}

func (k *embedding) Finish() { k.wide, k.short = nil, nil }

func (k *embedding) Do(_ *record.Workspace, t int) {
	sample, from, n := k.StreamingGrid.ItemAt(t)
	out := k.s.Out[0]
	y := k.E.Floats(out)[k.E.At(out, sample, from, k.Length)*k.width:]
	for i := range n {
		id := int(k.token(sample*k.Length + from + i))
		copy(y[i*k.width:(i+1)*k.width], k.table[id*k.width:])
	}
}
