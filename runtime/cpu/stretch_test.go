package cpu

import (
	"context"
	"fmt"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// deep returns a model that looks back only, with states in and out: an embedding, systems of every kind, a sequence in
// the middle that is also an output, and a sum over the valid steps.
func deep(t testing.TB, windows []int, outputs bool) *ir.Graph {
	t.Helper()
	r := NewGen(21)
	b := ir.NewBuilder("deep", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	ids := b.Input("ids", ir.Tensor(tensor.Int64, "B", "L"))
	lengths := b.Input("lengths", ir.Tensor(tensor.Int64, "B"))
	x := b.Op("essm", "Embedding", []*ir.Value{ids, b.Const("table", r.Floats(1, 7, 12))})
	for i, window := range windows {
		s := plain
		s.direction, s.window, s.dense, s.state = "forward", window, i%3 == 2, true
		s.complexB = i%2 == 1 && !s.dense
		state := b.Input(fmt.Sprint("state", i), ir.Tensor(tensor.Float32, "B", s.stateSize()))
		out := s.ssm(r, b, x, state)
		b.Output(fmt.Sprint("state_out", i), out[1])
		y := b.Op("", "Gelu", out[:1])
		y = b.Op("essm", "Linear", []*ir.Value{y, b.Const("w", r.Floats(0.3, 12, 12)),
			b.Const("bias", r.Floats(1, 12))})
		if i == 1 {
			y = b.Op("", "Reshape", []*ir.Value{y, b.Const("shape", tensor.FromSlice([]int64{0, 0, 3, 4}, 4))})
			y = b.Op("", "LayerNormalization", []*ir.Value{y, b.Const("scale", r.Floats(1, 4))})
			y = b.Op("", "Reshape", []*ir.Value{y, b.Const("shape", tensor.FromSlice([]int64{0, 0, 12}, 3))})
			if outputs {
				b.Output("middle", y)
			}
		}
		x = b.Op("", "Add", []*ir.Value{x, y})
	}
	v := b.Op("essm", "Pick", []*ir.Value{x, lengths}, ir.A("mode", "pool"))
	b.Output("y", b.Op("essm", "Linear", []*ir.Value{v, b.Const("w", r.Floats(0.3, 3, 12))}))
	if outputs {
		b.Output("all", x)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// bindChunks binds a graph to inputs, with time chunks of the given rows.
func bindChunks(t testing.TB, g *ir.Graph, rows, threads int, in []tensor.Datum) *executable {
	t.Helper()
	return bindConfig(t, g, runtime.Config{Threads: threads}, rows, in)
}

func bindConfig(t testing.TB, g *ir.Graph, c runtime.Config, rows int, in []tensor.Datum) *executable {
	t.Helper()
	return bindProgram(t, g, c, in, func(p *program) { p.stretchRows = rows })
}

// bindProgram binds a graph to inputs; set changes the program first.
func bindProgram(t testing.TB, g *ir.Graph, c runtime.Config, in []tensor.Datum, set func(p *program)) *executable {
	t.Helper()
	p, err := compile(g, c)
	if err != nil {
		t.Fatal(err)
	}
	set(p)
	b := runtime.Binding{Dims: map[string]int64{}}
	for i, v := range in {
		x := v.(*tensor.Tensor)
		b.Inputs = append(b.Inputs, lowering.TypeOf(x.DType(), x.Shape()))
		for axis, dim := range g.Inputs[i].Shape() {
			for _, s := range dim.Symbols() {
				b.Dims[s] = int64(x.Shape()[axis])
			}
		}
	}
	e, err := p.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*executable)
}

// deepInputs returns inputs for deep.
func deepInputs(g *ir.Graph, batch, length int) (in []tensor.Datum) {
	r := NewGen(4)
	for _, v := range g.Inputs {
		switch v.Name {
		case "ids":
			ids := tensor.New(tensor.Int64, batch, length)
			for i := range tensor.Data[int64](ids) {
				tensor.Data[int64](ids)[i] = int64(r.IntN(7))
			}
			in = append(in, ids)
		case "lengths":
			n := tensor.New(tensor.Int64, batch)
			for i := range tensor.Data[int64](n) {
				tensor.Data[int64](n)[i] = int64(length - i*length/3)
			}
			in = append(in, n)
		default:
			k, _ := v.Shape()[1].Known()
			in = append(in, r.Floats(1, batch, int(k)))
		}
	}
	return in
}

// TestStretches checks that answers are bitwise the same at any length of chunks and any number of threads.
func TestStretches(t *testing.T) {
	for _, windows := range [][]int{{0, 0, 0, 0}, {3, 150, 0, 1}, {500, 0, 7, 0}} {
		for _, outputs := range []bool{false, true} {
			g := deep(t, windows, outputs)
			for _, batch := range []int{1, 3} {
				in := deepInputs(g, batch, 1037)
				var want []tensor.Datum
				for k, rows := range []int{1 << 30, 1, 300, 1000, 2900} {
					threads := 1 + k%3
					e := bindChunks(t, g, rows, threads, in)
					if wanted := rows < 1037; wanted != (len(e.stretches) == 1) && batch == 1 {
						t.Fatalf("%d rows: %d stretches", rows, len(e.stretches))
					}
					for range 2 { // nothing is left of the first run
						out := make([]tensor.Datum, len(g.Outputs))
						if err := e.Run(context.Background(), in, out); err != nil {
							t.Fatal(err)
						}
						if want == nil {
							want = out
						}
						for i, v := range out {
							if !tensor.Equal(v.(*tensor.Tensor), want[i].(*tensor.Tensor)) {
								t.Fatalf("windows %v, outputs %v, batch %d, %d rows, %d threads: output %s differs",
									windows, outputs, batch, rows, threads, g.Outputs[i].Name)
							}
						}
					}
				}
				named := map[string]tensor.Datum{}
				for i, v := range g.Inputs {
					named[v.Name] = in[i]
				}
				got := map[string]tensor.Datum{}
				for i, v := range g.Outputs {
					got[v.Name] = want[i]
				}
				CloseTo(t, "chunks", got, Truth(t, g, named), 1e-5)
			}
		}
	}
}

// TestChunkMemory checks that the working memory of a model that looks back only does not depend on the length.
func TestChunkMemory(t *testing.T) {
	g := deep(t, []int{0, 20, 0, 0, 0}, false)
	bytes := func(batch, length int) int64 {
		return bindChunks(t, g, stretchRows, 2, deepInputs(g, batch, length)).ArenaBytes()
	}
	for _, batch := range []int{1, 3} {
		a := bytes(batch, 2*stretchRows)
		for _, length := range []int{10007, 1 << 14, 1 << 16, 1 << 20} {
			if b := bytes(batch, length); b != a {
				t.Errorf("batch %d: %d bytes at %d steps, %d at %d", batch, a, 2*stretchRows, b, length)
			}
		}
	}
}

// TestChunks checks that chunks cover a sequence, that they are whole tiles, and that all but the last two are as long
// as the first, and none longer.
func TestChunks(t *testing.T) {
	for _, rows := range []int{1, 96, 100, 500, 4096} {
		for batch := 1; batch <= 3; batch++ {
			for length := range 10 * record.LargestTile {
				length *= 7
				st := stretch{length: length, chunk: chunkSteps(rows, batch, length)}
				if st.chunk%record.LargestTile != 0 || st.chunk*batch > max(rows, batch*record.LargestTile) {
					t.Fatalf("%d rows, batch %d, %d steps: chunks of %d", rows, batch, length, st.chunk)
				}
				for from, to := 0, 0; from < length; from = to {
					to = st.next(from)
					if n := to - from; n <= 0 || n > st.chunk || to > length ||
						to < length && n%record.LargestTile != 0 || n < st.chunk && length-to > st.chunk {
						t.Fatalf("%d rows, batch %d, %d steps: a chunk from %d to %d, the first has %d", rows, batch,
							length, from, to, st.chunk)
					}
				}
			}
		}
	}
}

// TestStretchesAroundBackward checks that steps that look ahead have whole sequences, and that steps before and behind
// them run in chunks.
func TestStretchesAroundBackward(t *testing.T) {
	r := NewGen(5)
	b := ir.NewBuilder("mixed", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime] = "L"
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 12))
	for _, direction := range []string{"forward", "forward", "bidirectional", "forward", "forward", "forward"} {
		s := plain
		s.direction = direction
		x = b.Op("", "Gelu", s.ssm(r, b, x, nil))
	}
	b.Output("y", x)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := []tensor.Datum{r.Floats(1, 2, 700, 12)}
	var want tensor.Datum
	for _, rows := range []int{1 << 30, 200} {
		e := bindChunks(t, g, rows, 2, in)
		if rows == 200 && len(e.stretches) != 2 {
			t.Errorf("%d stretches, expected one on each side", len(e.stretches))
		}
		out := make([]tensor.Datum, 1)
		if err := e.Run(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = out[0]
		}
		if !tensor.Equal(want.(*tensor.Tensor), out[0].(*tensor.Tensor)) {
			t.Error("answers differ")
		}
	}
}

// TestStretchesLow checks that products in low precision run in stretches.
func TestStretchesLow(t *testing.T) {
	g := layered(t, system{ch: 1, heads: 2, n: 32, h: 32, m: 32, direction: "forward", d: "diagonal"}, 3, geluOp, true)
	g.Meta[ir.MetaTime] = "L"
	in := []tensor.Datum{NewGen(6).Floats(1, 2, 700, 64)}
	for _, products := range []tensor.DType{tensor.BFloat16, tensor.Int8} {
		var want *tensor.Tensor
		for _, rows := range []int{1 << 30, 300} {
			e := bindConfig(t, g, runtime.Config{Threads: 2, Products: products}, rows, in)
			if rows == 300 && len(e.stretches) != 1 {
				t.Errorf("%v: %d stretches, expected one", products, len(e.stretches))
			}
			out := make([]tensor.Datum, 1)
			if err := e.Run(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = out[0].(*tensor.Tensor)
			}
			if !tensor.Equal(want, out[0].(*tensor.Tensor)) {
				t.Errorf("%v: answers differ", products)
			}
		}
	}
}
