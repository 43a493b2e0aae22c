package lowering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// plain executes a binding by evaluating all steps but those that have a Control, and notes which bodies are bound late.
type plain struct {
	Frame
	controls map[*Step]Control
	bound    *[]string // what the root executable was asked for, in order
}

func newPlain(d *Binding, nested bool, bound *[]string) *plain {
	e := &plain{Frame: d.NewFrame(nested), controls: map[*Step]Control{}, bound: bound}
	elsewhere := map[*Value]bool{}
	for i, v := range d.Program.Outputs {
		elsewhere[v] = elsewhere[v] || e.Direct(i)
	}
	for _, v := range d.Program.Values {
		if d.Placed(v) && !elsewhere[v] && d.Constant(v) == nil && !d.Given(v) {
			e.Place(v, tensor.New(d.DType(v), d.Shape(v)...))
		}
	}
	for _, s := range d.Program.Steps {
		c := d.Control(s, 64)
		if d.Dead(s) || c == nil {
			continue
		}
		e.controls[s] = c
		for _, v := range s.Out {
			if v != nil && d.Shape(v) != nil && d.DType(v) == tensor.String {
				e.Place(v, tensor.New(tensor.String, d.Shape(v)...))
			}
		}
		var runners []Runner
		for _, sub := range c.Programs() {
			if sub == nil {
				runners = append(runners, nil)
				continue
			}
			runners = append(runners, newPlain(sub, true, bound))
		}
		c.Attach(runners, tensor.AlignedBytes(c.Memory()), e)
	}
	return e
}

func (e *plain) Nest(d *Binding) (Runner, error) {
	*e.bound = append(*e.bound, state(d))
	return newPlain(d, true, e.bound), nil
}

// state returns the shape of the carried value.
func state(d *Binding) string { return fmt.Sprint(d.Shape(d.Program.Inputs[1])) }

func (e *plain) Drop(r Runner) error {
	*e.bound = append(*e.bound, "dropped "+state(r.(*plain).Binding))
	return nil
}

func (e *plain) Keeps() int { return 4 }

func (e *plain) Run(ctx context.Context, in, out []tensor.Datum) error {
	defer e.End()
	if err := e.Begin(context.Background(), in, out); err != nil {
		return err
	}
	for _, s := range e.Binding.Program.Steps {
		if e.Binding.Dead(s) {
			continue
		}
		err := error(nil)
		if c := e.controls[s]; c != nil {
			err = c.Run(ctx, &e.Frame)
		} else {
			err = e.Evaluate(ctx, s)
		}
		if err != nil {
			return s.Failure(ctx, err)
		}
	}
	return e.Finish(out)
}

func parse(t testing.TB, text string) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>`+text), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// bindPlain lowers g, and binds it to inputs.
func bindPlain(t testing.TB, g *ir.Graph, c runtime.Config, in []tensor.Datum) (*plain, *[]string) {
	t.Helper()
	p, err := Lower(g, c, evaluated{})
	if err != nil {
		t.Fatal(err)
	}
	var types []ir.Type
	for _, d := range in {
		types = append(types, ir.Of(d.(*tensor.Tensor)))
	}
	d := p.Bind(runtime.Binding{Inputs: types}, nil)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	var bound []string
	return newPlain(d, false, &bound), &bound
}

// growing is a loop whose state gets two rows in each iteration.
const growing = `g (float[2,%d] a, float[%[1]d,%[1]d] w, int64 m) => (an) {
	an = Loop (m, "", a) <body: graph = step (int64 t, bool cond, float[] p) => (bool cond, float[] q) {
		e = MatMul (p, w)
		q = Concat <axis: int = 0> (e, a)
	}>
}`

// A body whose shapes go on changing is bound for those that it gets, and kept for the next run. With too many of them
// some give way. A body that has next to nothing to compute is not bound.
func TestLateBinding(t *testing.T) {
	const n = 100
	w := tensor.New(tensor.Float32, n, n)
	for i := range n {
		tensor.Data[float32](w)[i*n+i] = 1
	}
	in := []tensor.Datum{tensor.New(tensor.Float32, 2, n), w, nil}
	e, bound := bindPlain(t, parse(t, fmt.Sprintf(growing, n)), runtime.Config{},
		[]tensor.Datum{in[0], w, tensor.Scalar(int64(0))})
	for _, c := range []struct {
		iterations int
		bound      []string
	}{
		{3, []string{"[2 100]", "[4 100]", "[6 100]"}},
		{3, nil},
		{4, []string{"[8 100]"}},
		{6, []string{"dropped [2 100]", "[10 100]", "dropped [4 100]", "[12 100]"}},
	} {
		*bound, in[2] = nil, tensor.Scalar(int64(c.iterations))
		out := []tensor.Datum{nil}
		if err := e.Run(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		if got := out[0].(*tensor.Tensor).Shape(); !slices.Equal(got, []int{2 + 2*c.iterations, n}) {
			t.Fatalf("found %v", got)
		}
		if !slices.Equal(*bound, c.bound) {
			t.Errorf("%d iterations: bound for\n%s\nexpected\n%s", c.iterations, strings.Join(*bound, "\n"),
				strings.Join(c.bound, "\n"))
		}
	}
	e, bound = bindPlain(t, parse(t, fmt.Sprintf(growing, 3)), runtime.Config{},
		[]tensor.Datum{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3, 3), in[2]})
	if err := e.Run(context.Background(),
		[]tensor.Datum{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3, 3), in[2]},
		[]tensor.Datum{nil}); err != nil {
		t.Fatal(err)
	}
	if len(*bound) > 0 {
		t.Errorf("a small body is bound for %v", *bound)
	}
}

// Scan outputs of a loop of unknown length grow by doubling, and by the needed size if doubling exceeds the limit.
// The limit covers the parts so far and the larger memory, and at the end the memory, the output and the last state.
func TestScanOutputGrows(t *testing.T) {
	const size, iterations = 1000, 20
	g := parse(t, `g (float[1000] a, int64 m) => (s) {
		an, s = Loop (m, "", a) <body: graph = step (int64 t, bool cond, float[1000] p) => (bool cond, float[1000] q, float[1000] q) {
			q = Neg (p)
		}>
	}`)
	in := []tensor.Datum{tensor.New(tensor.Float32, size), tensor.Scalar(int64(iterations))}
	for _, c := range []struct {
		limit int64
		fits  bool
	}{{4 * size * (2*iterations + 1), true}, {4 * size * (32 + iterations + 1), true}, {4*size*(2*iterations-1) - 1, false}} {
		e, _ := bindPlain(t, g, runtime.Config{MaxMemory: c.limit}, in)
		out := []tensor.Datum{nil}
		err := e.Run(context.Background(), in, out)
		var memory *runtime.MemoryError
		switch {
		case c.fits && err != nil:
			t.Errorf("%d bytes: %v", c.limit, err)
		case c.fits && !slices.Equal(out[0].(*tensor.Tensor).Shape(), []int{iterations, size}):
			t.Errorf("%d bytes: found %s", c.limit, out[0])
		case !c.fits && (!errors.As(err, &memory) || !strings.Contains(err.Error(), "iteration 19")):
			t.Errorf("%d bytes: found %v", c.limit, err)
		}
	}
}

// Between runs a frame holds nothing of a caller's.
func TestFrameForgets(t *testing.T) {
	in := []tensor.Datum{tensor.New(tensor.Float32, 4), tensor.Scalar(true)}
	e, _ := bindPlain(t, parse(t, `g (float[4] a, bool c) => (y, s) {
		y = Neg (a)
		s = SequenceConstruct (a, y)
	}`), runtime.Config{}, in)
	out := []tensor.Datum{nil, nil}
	if err := e.Run(context.Background(), in, out); err != nil {
		t.Fatal(err)
	}
	for _, v := range e.Binding.Program.Values {
		if e.data[v.ID] != nil || e.PlaceOf(v) == nil && e.slots[v.ID+1] != (elements{}) {
			t.Errorf("%s is kept", v.Name)
		}
	}
	if out[0] == nil || len(out[1].(*tensor.Sequence).Items) != 2 {
		t.Errorf("found %v", out)
	}
}
