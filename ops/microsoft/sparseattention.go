package microsoft

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SparseAttention is GroupQueryAttention over the blocks of keys that a layout names.
var SparseAttention = composed(&ir.Op{Name: "SparseAttention",
	Doc: "softmax(Q·Kᵀ·scale)·V per head, as GroupQueryAttention with caches. Steps and keys are in blocks of " +
		"sparse_block_size. A query sees a key at its own step or before it if the layout of its head has the key's " +
		"block in the row of the query's: block_col_indices[l] lists the blocks of each row, and row r has those " +
		"from block_row_indices[l,r] to block_row_indices[l,r+1]. Head h has layout h modulo their number. " +
		"key_total_sequence_lengths has the keys of each sample.",
	In: ops.Sig("query:T[B,L,_]", "key:T[B,L,_]?", "value:T[B,L,_]?", "past_key:T[B,_,P,_]", "past_value:T[B,_,P,_]",
		"block_row_indices:int32[_,_]", "block_col_indices:int32[_,_]", "total_sequence_length:int32",
		"key_total_sequence_lengths:int32[B]", "cos_cache:T[_,_]?", "sin_cache:T[_,_]?"),
	Out:   ops.Sig("output:T[B,L,_]", "present_key:T[B,_,_,_]", "present_value:T[B,_,_,_]"),
	Elems: types{"T": half16}, Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("num_heads", nil, "heads of queries")),
		ops.Required(ops.IntSpec("kv_num_heads", nil, "heads of keys and values")),
		ops.Required(ops.IntSpec("sparse_block_size", nil, "steps of a block")),
		ops.IntSpec("do_rotary", 0, "whether queries and keys are turned by their positions"),
		ops.IntSpec("rotary_interleaved", 0, "whether turned pairs are neighbors"),
		ops.Spec("scale", ir.AttrFloat, "factor of products (0 or absent: 1/√features)")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		s := sparse{block: ops.Int(n, "sparse_block_size"), rows: x[5], columns: x[6]}
		s.grouped = grouped{heads: heads{b: b, n: n}, count: ops.Int(n, "num_heads"), kv: ops.Int(n, "kv_num_heads"),
			x: []*ir.Value{x[0], x[1], x[2], x[3], x[4], x[8], x[7], in(x, 9), in(x, 10)}}
		if s.count < 1 || s.kv < 1 || s.count%s.kv != 0 || s.block < 1 {
			return fail(b, "num_heads %d, kv_num_heads %d, sparse_block_size %d: expected numbers of 1 or more, the "+
				"first a multiple of the second", s.count, s.kv, s.block)
		}
		if (x[1] == nil) != (x[2] == nil) {
			return fail(b, "expected key and value together")
		}
		return s.body()
	}})

// sparse builds the body of SparseAttention.
type sparse struct {
	grouped
	block         int64
	rows, columns *ir.Value // the layouts
}

func (s *sparse) body() []*ir.Value {
	b := s.b
	layouts := dim(b, s.rows, 0, "block_row_indices")
	if b.Err() == nil && (layouts < 1 || s.count%layouts != 0) {
		return fail(b, "block_row_indices: expected a number of layouts that divides %d heads, found %v", s.count,
			s.rows.Type)
	}
	// The lengths count all keys; GroupQueryAttention's count one less.
	s.x[5] = std(b, "Sub", cast(b, s.x[5], tensor.Int64), b.Ints(1))
	q, k, v, place, size := s.places()
	if b.Err() != nil {
		return nil
	}
	// The caches have spare capacity, and elements beyond the steps of a sample do not change.
	at := std(b, "Reshape", s.before, b.Ints(-1))
	k, v = std(b, "TensorScatter", s.x[3], k, at), std(b, "TensorScatter", s.x[4], v, at)
	keys := s.steps(s.size(k))
	causal := std(b, "LessOrEqual", std(b, "Unsqueeze", keys, b.Ints(0, 1)), std(b, "Unsqueeze", place, b.Ints(2)))
	// Steps beyond the layout are padding.
	last := std(b, "Sub", with(b, "Shape", vals(s.rows), ir.A("start", 1), ir.A("end", 2)), b.Ints(2))
	blockOf := func(step *ir.Value) *ir.Value { return std(b, "Min", std(b, "Div", step, b.Ints(s.block)), last) }
	seen := with(b, "Gather", vals(s.dense(last), blockOf(keys)), ir.A("axis", 2))
	seen = with(b, "Gather", vals(seen, blockOf(place)), ir.A("axis", 1)) // (layouts,B,L,T)
	seen = std(b, "Tile", with(b, "Transpose", vals(seen), ir.A("perm", []int{1, 0, 2, 3})),
		b.Ints(1, s.count/layouts, 1, 1))
	scale := s.n.Attrs.Float("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(size))
	}
	mask := std(b, "And", seen, std(b, "Unsqueeze", causal, b.Ints(1)))
	y := with(b, "Attention", vals(q, k, v, mask), ir.A("q_num_heads", s.count), ir.A("kv_num_heads", s.kv),
		ir.A("scale", scale))
	return vals(y, k, v)[:max(1, len(s.n.Outputs))]
}

// dense returns which blocks (layouts, rows, columns) the layouts have.
func (s *sparse) dense(last *ir.Value) *ir.Value {
	b := s.b
	one := b.Ints(1)
	bounds := cast(b, s.rows, tensor.Int64)
	from := std(b, "Slice", bounds, b.Ints(0), b.Ints(-1), one)
	to := std(b, "Slice", bounds, one, b.Ints(math.MaxInt64), one)
	entries := s.steps(with(b, "Shape", vals(s.columns), ir.A("start", 1)))
	rows := std(b, "And", std(b, "LessOrEqual", std(b, "Unsqueeze", from, b.Ints(2)), entries),
		std(b, "Less", entries, std(b, "Unsqueeze", to, b.Ints(2)))) // (layouts, rows, entries)
	blocks := s.steps(std(b, "Add", last, one))
	columns := std(b, "Equal", std(b, "Unsqueeze", cast(b, s.columns, tensor.Int64), b.Ints(2)), blocks)
	count := std(b, "MatMul", cast(b, rows, tensor.Float32), cast(b, columns, tensor.Float32))
	return std(b, "Greater", count, constLike(b, count, 0))
}
