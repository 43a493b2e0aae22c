package sequences

import (
	"cmp"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// recurrentLayer is an LSTM, GRU or RNN with fixed weights, which are packed once per model.
type recurrentLayer struct {
	gates, dirs, hidden, inputs int
	reverse                     bool // the first direction is backward
	batchFirst                  bool
	clip                        float32 // 0 for none
	f                           [][]activation
	w                           []*kernel.Packed // per direction: weights of the inputs
	bias                        [][]float32      // per direction: biases of the inputs; nil for none
	cell                        cell
}

// cell computes steps of a layer.
type cell interface {
	// states returns the number of states besides h: 0 or 1. temp returns the size of the scratch per sample, in
	// float32.
	states() int
	temp() int
	// step replaces the states of rows samples. gates has the contributions of the inputs, gate by gate in each row;
	// step may change it.
	step(l *recurrentLayer, dir, rows int, gates, h, c, temp []float32)
}

// recurrentWeights returns a layer with the attributes and weights that all recurrent layers have. If the sizes of
// the weights do not match it returns nil, so that the node is evaluated. bias reports whether the state's bias of
// gate i is added to the inputs' bias; the cell adds the others.
func recurrentWeights(s *lowering.Step, gates int, bias func(i int) bool) *recurrentLayer {
	a := s.Node.Attrs
	b := record.Numbers(s, 3)
	ws, rs := s.ConstShape(1), s.ConstShape(2)
	if len(ws) != 3 || len(rs) != 3 {
		return nil
	}
	l := &recurrentLayer{gates: gates, dirs: 1, hidden: rs[2], inputs: ws[2],
		batchFirst: ops.Int(s.Node, "layout") != 0, clip: float32(a.Float("clip", 0))}
	switch ops.Str(s.Node, "direction") {
	case "bidirectional":
		l.dirs = 2
	case "reverse":
		l.reverse = true
	}
	n, g := l.hidden, gates*l.hidden
	if g == 0 || l.inputs == 0 || ws[0] != l.dirs || rs[0] != l.dirs || ws[1] != g || rs[1] != g ||
		b != nil && len(b) != 2*l.dirs*g || a.Int("hidden_size", int64(n)) != int64(n) || l.clip < 0 {
		return nil
	}
	f := activationsOf(s.Node)
	if f == nil {
		return nil
	}
	activations := len(f) / l.dirs
	for d := range l.dirs {
		l.f = append(l.f, f[d*activations:(d+1)*activations])
		l.w = append(l.w, packedPart(s, 1, d*g*l.inputs, g, l.inputs))
		if b == nil {
			l.bias = append(l.bias, nil)
			continue
		}
		l.bias = append(l.bias, record.Keep(s, []int{3}, nil, func() []float32 { return make([]float32, g) },
			func(sum []float32) {
				copy(sum, b[2*d*g:])
				for i, x := range b[(2*d+1)*g : (2*d+2)*g] {
					if bias(i / n) {
						sum[i] += x
					}
				}
			}))
	}
	return l
}

// partKey identifies a packed part of a tensor.
type partKey struct {
	t          *tensor.Tensor
	from, m, k int
}

// packedPart packs m rows of k numbers of fixed input i, starting at number from, for products.
func packedPart(s *lowering.Step, i, from, m, k int) *kernel.Packed {
	return record.Keep(s, []int{i}, partKey{s.Fixed(i), from, m, k}, func() *kernel.Packed { return kernel.NewPacked(m, k) },
		func(p *kernel.Packed) {
			if from+m*k == s.Fixed(i).Len() { // this is the last part
				defer s.Release(i)
			}
			p.Fill(record.Numbers(s, i)[from:], k, 1)
		})
}

// A worker computes at most recurrentRows samples together, so that a matrix is read once per step for all of them.
// The products of the inputs are computed ahead in chunks of about recurrentChunk rows, which stay in the cache.
const (
	recurrentRows  = 6
	recurrentChunk = 96
)

// recurrentPass runs a layer on sequences. A work item is one direction of a group of samples; the longest sequences
// come first.
type recurrentPass struct {
	*recurrentLayer
	step                 *lowering.Step
	length, batch        int
	groups, per          int // samples in groups of per
	chunk                int // number of steps
	x, h0, c0, y, hn, cn []float32
	temp                 []float32
	order, lens          []int                     // the samples by length, and their lengths
	read                 [3]lowering.Slot[float32] // x, h0, c0
	write                [3]lowering.Slot[float32] // y, hn, cn
	given                lowering.Slot[int32]      // lengths
}

// kernel returns the kernel of the layer.
func (l *recurrentLayer) kernel(s *lowering.Step) record.TensorMaker {
	return func(d *lowering.Binding) *record.TensorKernel {
		in := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || len(in) != 3 || in[2] != l.inputs {
			return nil
		}
		p := &recurrentPass{recurrentLayer: l, step: s, length: in[0], batch: in[1]}
		state := []int{l.dirs, in[1], l.hidden}
		if l.batchFirst {
			p.length, p.batch = in[1], in[0]
			state = []int{in[0], l.dirs, l.hidden}
		}
		for _, i := range []int{5, 6} {
			if !s.Absent(i) && (!d.Typed(s, i, tensor.Float32) || !slices.Equal(d.ShapeOf(s, i), state)) {
				return nil // the evaluation reports the error
			}
		}
		if !s.Absent(4) && (!d.Typed(s, 4, tensor.Int32) || !slices.Equal(d.ShapeOf(s, 4), []int{p.batch})) {
			return nil
		}
		for i, v := range s.Out {
			if v != nil && !d.Gives(s, i, tensor.Float32) {
				return nil
			}
		}
		for k, i := range []int{0, 5, 6} {
			p.read[k] = lowering.Input[float32](d, s, i)
			p.write[k] = lowering.Output[float32](d, s, k)
		}
		p.given = lowering.Input[int32](d, s, 4)
		p.groups = max(1, (p.batch+recurrentRows-1)/recurrentRows)
		p.per = (p.batch + p.groups - 1) / p.groups
		p.chunk = min(max(1, recurrentChunk/max(1, p.per)), max(1, p.length))
		p.order, p.lens = lowering.Make[int](d, p.batch), lowering.Make[int](d, p.batch)
		return &record.TensorKernel{Temp: l.dirs * p.groups * p.itemTemp(), Run: p.run}
	}
}

// itemTemp returns the size of a work item's memory, in float32: the inputs of a chunk and their products, the
// states, and the scratch of the cell.
func (p *recurrentPass) itemTemp() int {
	return p.per * (p.chunk*(p.inputs+p.gates*p.hidden) + (1+p.cell.states())*p.hidden + p.cell.temp())
}

func (p *recurrentPass) run(e record.Execution, call record.Call) error {
	s := p.step
	f := e.Frame()
	p.x, p.h0, p.c0, p.temp = p.read[0].In(f), p.read[1].In(f), p.read[2].In(f), call.Temp
	p.y, p.hn, p.cn = p.write[0].In(f), p.write[1].In(f), p.write[2].In(f)
	for i := range p.order {
		p.order[i], p.lens[i] = i, p.length
	}
	if !p.given.Absent() {
		lens := p.given.In(f)
		for _, n := range lens {
			if n < 0 || int(n) > p.length {
				return e.Fallback(s) // the evaluation reports the error
			}
		}
		slices.SortStableFunc(p.order, func(a, b int) int { return cmp.Compare(lens[b], lens[a]) })
		for i, b := range p.order {
			p.lens[i] = int(lens[b])
		}
	}
	err := e.Parallel(p, p.dirs*p.groups)
	p.x, p.h0, p.c0, p.y, p.hn, p.cn = nil, nil, nil, nil, nil, nil
	return err
}

// at returns the row of a sample's step in a tensor with the given number of directions. States are sequences of one
// step.
func (p *recurrentPass) at(dirs, dir, length, t, b int) int {
	if p.batchFirst {
		return (b*length+t)*dirs + dir
	}
	return (t*dirs+dir)*p.batch + b
}

func (p *recurrentPass) Do(w *record.Workspace, k int) {
	w.Node = p.step.Source
	dir, group := k%p.dirs, k/p.dirs
	from, to := group*p.per, min(p.batch, (group+1)*p.per)
	if from >= to {
		return
	}
	order, lens := p.order[from:to], p.lens[from:to]
	n, g, rows := p.hidden, p.gates*p.hidden, to-from
	t := p.temp[k*p.itemTemp() : (k+1)*p.itemTemp()]
	take := func(k int) (v []float32) { v, t = t[:k], t[k:]; return v }
	x, gates, h := take(p.per*p.chunk*p.inputs), take(p.per*p.chunk*g), take(p.per*n)
	var c []float32
	if p.cell.states() > 0 {
		c = take(p.per * n)
	}
	for i, b := range order {
		at := p.at(p.dirs, dir, 1, 0, b) * n
		p.start(h[i*n:(i+1)*n], p.h0, at)
		if c != nil {
			p.start(c[i*n:(i+1)*n], p.c0, at)
		}
		if p.y == nil {
			continue
		}
		for t := lens[i]; t < p.length; t++ {
			clear(p.y[p.at(p.dirs, dir, p.length, t, b)*n:][:n])
		}
	}
	place := func(k, i int) int { // place returns the step index of step k of sample i
		if dir == 1 || p.reverse {
			return lens[i] - 1 - k
		}
		return k
	}
	active := func(k int) int { // active returns the number of samples with a step k
		m := rows
		for m > 0 && lens[m-1] <= k {
			m--
		}
		return m
	}
	for k0 := 0; k0 < lens[0] && !w.Stopped(); k0 += p.chunk {
		k1, all := min(lens[0], k0+p.chunk), 0
		for k := k0; k < k1; k++ {
			for i := range active(k) {
				copy(x[all*p.inputs:(all+1)*p.inputs], p.x[p.at(1, 0, p.length, place(k, i), order[i])*p.inputs:])
				all++
			}
		}
		kernel.Gemm(gates, g, x, p.inputs, all, p.w[dir], p.bias[dir], false)
		done := 0
		for k := k0; k < k1; k++ {
			m := active(k)
			p.cell.step(p.recurrentLayer, dir, m, gates[done*g:(done+m)*g], h, c, t)
			done += m
			for i := 0; i < m && p.y != nil; i++ {
				copy(p.y[p.at(p.dirs, dir, p.length, place(k, i), order[i])*n:][:n], h[i*n:(i+1)*n])
			}
		}
	}
	for i, b := range order {
		at := p.at(p.dirs, dir, 1, 0, b) * n
		if p.hn != nil {
			copy(p.hn[at:at+n], h[i*n:])
		}
		if p.cn != nil {
			copy(p.cn[at:at+n], c[i*n:])
		}
	}
}

// start sets a state to the given one, or to zero.
func (p *recurrentPass) start(state, given []float32, at int) {
	if clear(state); given != nil {
		copy(state, given[at:])
	}
}

// addProduct returns x + R h, for rows of x with stride ld and rows of h with n numbers. The result is in x, or, for
// a single row, in temp, which has the size of the product.
func addProduct(x []float32, ld int, h []float32, n, rows int, r *kernel.Packed, temp []float32) []float32 {
	if rows == 1 {
		kernel.Gemm(temp, r.M, h, n, 1, r, x[:r.M], false)
		return temp
	}
	kernel.Gemm(temp, r.M, h, n, rows, r, nil, false)
	for i := range rows {
		y := x[i*ld : i*ld+r.M]
		kernel.Add(y, y, temp[i*r.M:(i+1)*r.M])
	}
	return x
}
