package graphfuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

// stream runs the case in chunks, if the model can, with a snapshot now and then, and compares with the whole sequence.
func (k *check) stream() *Finding {
	g := k.cs.Graph
	if !k.way.Stream || g.Meta[ir.MetaTime] == "" {
		return nil
	}
	m, f := k.model("stream", g, runtime.Options{Threads: 1 + int(k.way.Seed%2)})
	if m == nil {
		return f
	}
	defer m.Close()
	for i, in := range k.cs.Runs {
		if k.got[i] == nil {
			continue
		}
		if f := k.streamed(m, i, in); f != nil {
			return f
		}
	}
	return nil
}

func (k *check) streamed(m *runtime.Model, run int, in Data) *Finding {
	g := k.cs.Graph
	batch, length := 1, -1
	axis := map[string]int{} // of time, by input
	for _, v := range g.Inputs {
		t, ok := in[v.Name].(*tensor.Tensor)
		if !ok {
			return nil
		}
		for a, d := range v.Shape() {
			if s, _ := d.Symbol(); s == g.Meta[ir.MetaTime] {
				if _, twice := axis[v.Name]; twice {
					return nil // a chunk of it is no chunk of the sequence
				}
				axis[v.Name], length = a, t.Dim(a)
			} else if s == g.Meta[ir.MetaBatch] && s != "" {
				batch = t.Dim(a)
			}
		}
	}
	if length < 1 || batch < 1 {
		return nil
	}
	s, err := m.NewStream(batch)
	if errors.Is(err, runtime.ErrStream) || errors.Is(err, runtime.ErrOption) {
		k.Coverage.note("no stream")
		return nil
	}
	if err != nil {
		return &Finding{"stream", fmt.Sprintf("run %d: %v%s", run, err, stack(err))}
	}
	timing := s.Timing()
	if timing.End != "" || timing.Flush > 0 || timing.Multiple > 1 || timing.Latency > 0 {
		k.Coverage.note("stream with latency or strides: not compared")
		return nil
	}
	k.Coverage.note("stream")
	for _, p := range s.Inputs() {
		if _, ok := in[p.Name]; !ok && !p.Optional {
			return nil
		}
	}
	rng := rand.New(rand.NewPCG(k.way.Seed, 5))
	parts := map[string][]*tensor.Tensor{}
	last := Data{}
	for lo := 0; lo < length; {
		n := 1
		switch rng.IntN(3) {
		case 0:
			n = 1 + rng.IntN(5)
		case 1:
			n = 1 + rng.IntN(length)
		}
		hi := min(lo+n, length)
		chunk, out := Data{}, Data{}
		for name, d := range in {
			chunk[name] = d
			if a, ok := axis[name]; ok {
				chunk[name] = cut(d.(*tensor.Tensor), a, lo, hi)
			}
		}
		if err := s.Step(context.Background(), chunk, out); err != nil {
			if _, whole := interpreted(g, chunk, false); whole != nil && !errors.Is(err, runtime.ErrInternal) {
				return nil // the model is for sequences of one length, and refuses the others
			}
			return &Finding{"stream", fmt.Sprintf("run %d, steps %d to %d: %v%s", run, lo, hi, err, stack(err))}
		}
		for _, o := range timing.Outputs {
			if o.Kind == stepgraph.Sequence {
				parts[o.Name] = append(parts[o.Name], out[o.Name].(*tensor.Tensor))
			}
		}
		last, lo = out, hi
		if rng.IntN(6) == 0 {
			b, err := s.Snapshot()
			if err == nil {
				if s, err = m.NewStream(batch); err == nil {
					err = s.Restore(b)
				}
			}
			if err != nil {
				return &Finding{"stream", fmt.Sprintf("run %d, snapshot after %d steps: %v", run, lo, err)}
			}
		}
	}
	got := last
	for _, o := range timing.Outputs {
		if o.Kind == stepgraph.Sequence {
			got[o.Name] = joined(parts[o.Name], o.Axis)
		}
	}
	if msg := k.want[run].judge(got, nil, false); msg != "" {
		return &Finding{"stream", fmt.Sprintf("run %d: %s", run, msg)}
	}
	return nil
}

// cut returns the steps from lo to hi along an axis.
func cut(x *tensor.Tensor, axis, lo, hi int) *tensor.Tensor {
	outer, n, inner := around(x.Shape(), axis)
	shape := append([]int(nil), x.Shape()...)
	shape[axis] = hi - lo
	if x.DType() == tensor.String {
		var v []string
		for o := range outer {
			v = append(v, x.Strings()[(o*n+lo)*inner:(o*n+hi)*inner]...)
		}
		return tensor.FromStrings(v, shape...)
	}
	if x.DType().Packed() {
		wide, _ := x.Convert(tensor.Float32, false)
		y, _ := cut(wide, axis, lo, hi).Convert(x.DType(), false)
		return y
	}
	y := tensor.New(x.DType(), shape...)
	w := x.DType().Bits() / 8
	for o := range outer {
		copy(y.Bytes()[o*(hi-lo)*inner*w:(o+1)*(hi-lo)*inner*w], x.Bytes()[(o*n+lo)*inner*w:(o*n+hi)*inner*w])
	}
	return y
}

// joined puts parts together along an axis.
func joined(parts []*tensor.Tensor, axis int) *tensor.Tensor {
	if d := parts[0].DType(); d.Packed() {
		var wide []*tensor.Tensor
		for _, p := range parts {
			x, _ := p.Convert(tensor.Float32, false)
			wide = append(wide, x)
		}
		y, _ := joined(wide, axis).Convert(d, false)
		return y
	}
	shape := append([]int(nil), parts[0].Shape()...)
	shape[axis] = 0
	for _, p := range parts {
		shape[axis] += p.Dim(axis)
	}
	outer, n, inner := around(shape, axis)
	if parts[0].DType() == tensor.String {
		v, at := make([]string, elems(shape)), 0
		for _, p := range parts {
			k := p.Dim(axis)
			for o := range outer {
				copy(v[(o*n+at)*inner:], p.Strings()[o*k*inner:(o+1)*k*inner])
			}
			at += k
		}
		return tensor.FromStrings(v, shape...)
	}
	y := tensor.New(parts[0].DType(), shape...)
	w := y.DType().Bits() / 8
	at := 0
	for _, p := range parts {
		k := p.Dim(axis)
		for o := range outer {
			copy(y.Bytes()[(o*n+at)*inner*w:], p.Bytes()[o*k*inner*w:(o+1)*k*inner*w])
		}
		at += k
	}
	return y
}

func around(shape []int, axis int) (outer, n, inner int) {
	return elems(shape[:axis]), shape[axis], elems(shape[axis+1:])
}
