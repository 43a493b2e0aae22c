package stepgraph_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

// stream feeds a step graph.
type stream struct {
	t     testing.TB
	sg    *stepgraph.Graph
	s     *runtime.Session
	state map[string]tensor.Datum
	wide  bool
	got   map[string][]*tensor.Tensor
}

func newStream(t testing.TB, sg *stepgraph.Graph, o runtime.Options, batch int) *stream {
	t.Helper()
	m, err := runtime.New(sg.Graph, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	f := &stream{t: t, sg: sg, s: m.NewSession(), state: map[string]tensor.Datum{}, wide: o.Precision == tensor.Float64,
		got: map[string][]*tensor.Tensor{}}
	for _, st := range sg.States {
		shape := []int{}
		for _, d := range st.Shape {
			n, err := d.Eval(map[string]int64{"B": int64(batch), "P": int64(batch) / 2})
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, int(n))
		}
		d := st.DType
		if d == tensor.Float32 && f.wide {
			d = tensor.Float64
		}
		f.state[st.Name] = tensor.New(d, shape...)
	}
	return f
}

// step feeds one chunk.
func (f *stream) step(in map[string]tensor.Datum) {
	f.t.Helper()
	for k, v := range f.state {
		in[k] = v
	}
	out, err := f.s.Run(context.Background(), in)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, st := range f.sg.States {
		f.state[st.Name] = out[st.Next]
	}
	for _, o := range f.sg.Outputs {
		f.got[o.Name] = append(f.got[o.Name], out[o.Name].(*tensor.Tensor))
	}
}

// part returns steps [from, to) of x along an axis. Steps from x's last one on hold noise.
func part(x *tensor.Tensor, axis, from, to int) *tensor.Tensor {
	shape := append([]int{}, x.Shape()...)
	n := shape[axis]
	shape[axis] = to - from
	v, _ := x.Float64s()
	inner := 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	var y []float64
	for o := range len(v) / (n * inner) {
		for k := from; k < to; k++ {
			for i := range inner {
				if k < n {
					y = append(y, v[(o*n+k)*inner+i])
				} else {
					y = append(y, float64(1+(k+i)%3))
				}
			}
		}
	}
	r, err := tensor.FromFloat64s(tensor.Float64, y, shape...)
	if err == nil {
		r, err = r.Convert(x.DType(), false)
	}
	if err != nil {
		panic(err)
	}
	return r
}

func timeAxis(v *ir.Value) int {
	for i, d := range v.Shape() {
		for _, s := range d.Symbols() {
			if s == "L" {
				return i
			}
		}
	}
	return -1
}

// feed feeds a whole sequence in chunks, as stepgraph.Graph documents it. Lengths are given from chunk lengthsAt on
// (-1: always).
func (f *stream) feed(in map[string]tensor.Datum, length int, chunks []int, lengthsAt int) map[string]*tensor.Tensor {
	f.t.Helper()
	m := int(f.sg.Multiple)
	at, total := 0, length+int(f.sg.Flush)
	total = (total + m - 1) / m * m
	batch := 0
	for i := 0; at < total; i++ {
		n := min(chunks[min(i, len(chunks)-1)], total-at)
		n = (n + m - 1) / m * m
		step := map[string]tensor.Datum{}
		for _, v := range f.sg.Graph.Inputs {
			x, given := in[v.Name].(*tensor.Tensor)
			if !given {
				continue
			}
			if a := timeAxis(v); a >= 0 {
				step[v.Name] = part(x, a, at, at+n)
			} else if v.Name != "lengths" || lengthsAt < 0 || i == lengthsAt || lengthsAt == math.MaxInt &&
				at+n >= total {
				step[v.Name] = x
			}
			if a := timeAxis(v); a >= 0 {
				batch = x.Dim(0)
				if a == 0 {
					batch = x.Dim(1)
				}
			}
		}
		if f.sg.End != "" && at+n > length {
			ends := make([]int64, batch)
			for b := range ends {
				ends[b] = int64(length)
			}
			step[f.sg.End] = tensor.FromSlice(ends, batch)
		}
		f.step(step)
		at += n
	}
	out := map[string]*tensor.Tensor{}
	for _, o := range f.sg.Outputs {
		got := f.got[o.Name]
		if o.Kind != stepgraph.Sequence {
			out[o.Name] = got[len(got)-1]
			continue
		}
		out[o.Name] = join(got, o.Axis, int(o.Delay), int(o.Delay+o.Steps(int64(length))))
	}
	return out
}

// join concatenates parts along an axis, and returns a range.
func join(parts []*tensor.Tensor, axis, from, to int) *tensor.Tensor {
	shape := append([]int{}, parts[0].Shape()...)
	inner, outer := 1, 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	for _, d := range shape[:axis] {
		outer *= d
	}
	shape[axis] = to - from
	var y []float64
	for o := range outer {
		k := 0
		for _, p := range parts {
			v, _ := p.Float64s()
			n := p.Dim(axis)
			for j := range n {
				if k >= from && k < to {
					y = append(y, v[(o*n+j)*inner:(o*n+j+1)*inner]...)
				}
				k++
			}
		}
	}
	return tensor.FromSlice(y, shape...)
}

// chunkings returns ways to cut a sequence. The last chunk of a list repeats.
func chunkings(r *rand.Rand) [][]int {
	random := make([]int, 50)
	for i := range random {
		random[i] = 1 + r.IntN(9)
	}
	return [][]int{{1}, {7}, {64}, {1000}, random}
}

// same compares the results of a stream with those for the whole sequence.
func same(t testing.TB, what string, got map[string]*tensor.Tensor, want map[string]tensor.Datum, tol float64) {
	t.Helper()
	for name, g := range got {
		x, _ := g.Float64s()
		y, err := want[name].(*tensor.Tensor).Float64s()
		if err != nil {
			t.Fatal(err)
		}
		if far := passtest.Distance(x, y); !(far <= tol) {
			t.Errorf("%s: output %s differs by %.3g of its largest value (shapes %v, %v)", what, name, far, g.Shape(),
				want[name].(*tensor.Tensor).Shape())
		}
	}
}

// whole runs a graph on a whole sequence.
func whole(t testing.TB, g *ir.Graph, o runtime.Options, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// noise returns random inputs for a graph at the given sizes: normal numbers (float64 if wide), tokens, lengths within
// L.
func noise(t testing.TB, g *ir.Graph, dims map[string]int64, r *rand.Rand, wide bool) map[string]tensor.Datum {
	t.Helper()
	in := map[string]tensor.Datum{}
	for _, v := range g.Inputs {
		if v.Name == "state_in" {
			continue
		}
		tt, _ := v.TensorType()
		var shape []int
		size := 1
		for _, d := range tt.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, int(n))
			size *= int(n)
		}
		x := make([]float64, size)
		for i := range x {
			switch {
			case v.Name == "lengths":
				x[i] = float64(1 + r.Int64N(dims["L"]))
			case tt.Elem.IsInt():
				x[i] = float64(r.IntN(4))
			default:
				x[i] = float64(float32(r.NormFloat64()))
			}
		}
		y := tensor.FromSlice(x, shape...)
		if !wide || tt.Elem.IsInt() {
			var err error
			if y, err = y.Convert(tt.Elem, false); err != nil {
				t.Fatal(err)
			}
		}
		in[v.Name] = y
	}
	return in
}
