package toy

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/device"
)

type data = map[string]tensor.Datum

func model(t *testing.T, b runtime.Backend, carry map[string]string, text string) *runtime.Model {
	t.Helper()
	g, err := backendtest.ParseGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	g.Meta[ir.MetaBatch] = "N"
	m, err := runtime.New(g, runtime.Options{Backend: b, Carry: carry})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func vector(x ...float32) *tensor.Tensor { return tensor.FromSlice(x, len(x)) }

// Work on memory of the host fails, and so does a copy to memory that the device does not reach.
func TestWrongSide(t *testing.T) {
	c := &card{next: 1 << 20}
	s := &stream{card: c}
	at, err := s.Allocate(8, "test")
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := c.AllocateHost(16, "test")
	if err != nil {
		t.Fatal(err)
	}
	k := &kernel{"test", []operand{{1, tensor.Float32, []int{2}}}, func([]*tensor.Tensor) {}}
	for _, x := range []struct {
		command device.Command
		at      device.Ptr
		want    string
	}{
		{device.Command{Launch: k}, at, ""},
		{device.Command{Launch: k}, at + 4, "not in the memory of the device"},
		{device.Command{Launch: k}, 0, "not in the memory of the device"},
		{device.Command{Kind: device.ToDevice, Dst: at, Host: pinned[8:16]}, 0, ""},
		{device.Command{Kind: device.ToDevice, Dst: at, Host: pinned[:9]}, 0, "not in the memory of the device"},
		{device.Command{Kind: device.ToHost, Src: at, Host: make([]byte, 8)}, 0, "does not reach"},
	} {
		list, err := s.Compile([]device.Command{x.command}, func(device.Buffer) device.Ptr { return x.at }, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := list.Issue(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		if err := s.Free(nil, nil, nil); err == nil {
			t.Error("memory was freed while work waits")
		}
		if err := s.Synchronize(); x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%+v: found %v, expected %q", x.command, err, x.want)
		}
	}
	if c.Close() == nil {
		t.Error("a device with memory in use was closed")
	}
	if err := errors.Join(s.Free(nil, []device.Ptr{at}, [][]byte{pinned}), s.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if c.Free([]device.Ptr{at}) == nil {
		t.Error("memory was freed twice")
	}
}

// Values that end too early read as NaN, and those that are too short reach a guard.
func TestApartFinds(t *testing.T) {
	for _, c := range []struct {
		early, short int
		wrong        bool
		want         string
	}{{0, 0, false, ""}, {1, 0, true, ""}, {0, 4, false, "a guard is"}, {0, 1, false, "a guard is"}} {
		m := model(t, apart(c.early, c.short), nil, `g (float[N,3] x, float[3,3] w) => (y, z) {
			a = MatMul (x, w)
			b = Softmax (a)
			d = MatMul (b, w)
			y = Softmax (d)
			z = Mul (a, a)
		}`)
		out, err := m.NewSession().Run(context.Background(), data{"x": tensor.New(tensor.Float32, 2, 3), "w": tensor.New(tensor.Float32, 3, 3)})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d bytes short: found %v, expected %q", c.short, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		y, z := tensor.Data[float32](out["y"].(*tensor.Tensor))[0], tensor.Data[float32](out["z"].(*tensor.Tensor))[0]
		if wrong := math.IsNaN(float64(y)) || math.IsNaN(float64(z)); wrong != c.wrong {
			t.Errorf("%d units early: found %v and %v", c.early, y, z)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The device reports an index that is out of range as an error of the node. The session works afterwards.
func TestFault(t *testing.T) {
	m := model(t, New(), nil, `g (float[3,2] x, int64[N] i) => (y) {
		y = Gather (x, i)
	}`)
	s := m.NewSession()
	x := tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5}, 3, 2)
	for _, i := range []int64{-1, 3, 2, -4} {
		out, err := s.Run(context.Background(), data{"x": x, "i": tensor.FromSlice([]int64{i}, 1)})
		if i < -3 || i > 2 {
			if node := (*runtime.NodeError)(nil); !errors.As(err, &node) || node.Node.Op.Name != "Gather" {
				t.Errorf("index %d: expected an error of the node, found %v", i, err)
			}
		} else if err != nil || tensor.Data[float32](out["y"].(*tensor.Tensor))[1] != 5 {
			t.Errorf("index %d: found %v (%v)", i, out["y"], err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// States of streams stay on the device, one by one and many at once, unless the host computes with them: Einsum has no
// kernel.
func TestStreams(t *testing.T) {
	for _, next := range []string{"Add (y, x)", "Einsum <equation: string = \"i->i\"> (y)"} {
		m := model(t, New(), map[string]string{"s": "next"}, `g (float[N] x, float[N] s) => (y, next) {
			d = Add (x, x)
			y = Add (d, s)
			next = `+next+`
		}`)
		ctx := context.Background()
		var all [3]*runtime.Stream
		var state [3]float32
		for i := range all {
			var err error
			if all[i], err = m.NewStream(1); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 5 {
			var steps []runtime.StreamStep
			x := func(i int) float32 { return float32(10*i + round) }
			for i, s := range all {
				steps = append(steps, runtime.StreamStep{Stream: s, In: data{"x": vector(x(i))}, Out: data{}})
			}
			var err error
			if one := steps[round%3]; round%2 == 0 {
				err = errors.Join(one.Stream.Step(ctx, one.In, one.Out), m.StepMany(ctx, append(steps[:round%3:round%3], steps[round%3+1:]...)))
			} else {
				err = m.StepMany(ctx, steps)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				y := 2*x(i) + state[i]
				if state[i] = y; next == "Add (y, x)" {
					state[i] += x(i)
				}
				if got := tensor.Data[float32](step.Out["y"].(*tensor.Tensor))[0]; got != y {
					t.Errorf("%s: stream %d, step %d: found %v, expected %v", next, i, round, got, y)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Profiles have the units of the device, of the host, and the copies between them.
func TestProfile(t *testing.T) {
	g, err := backendtest.ParseGraph(`g (float[N,2] x) => (y) {
		a = Exp (x)
		b = Neg (a)
		c = Einsum <equation: string = "ij->ji"> (b)
		y = Softmax (c)
	}`)
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: New(), Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	if _, err := s.Run(context.Background(), data{"x": tensor.New(tensor.Float32, 3, 2)}); err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{}
	for _, x := range s.Profile() {
		forms[x.Op+": "+x.Form] = x.Name
		if x.Calls != 1 {
			t.Errorf("%s: %d calls", x.Name, x.Calls)
		}
	}
	for _, want := range []string{"copy: crossing", "elements: element", "Einsum: on the host: no kernel", "Softmax: softmax_exp, softmax_divide"} {
		if _, ok := forms[want]; !ok {
			t.Errorf("the profile lacks %q: %v", want, forms)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// Plan texts and Explain show what the host computes, and what is copied for it. Without the host, its operators are refused.
func TestText(t *testing.T) {
	const text = `g (float[N,2] x) => (y) {
		a = Softmax (x)
		b = Einsum <equation: string = "ij->ji"> (a)
		y = Softmax (b)
	}`
	m := model(t, New(), nil, text)
	plan, err := m.Lowered(map[string]int64{"N": 3})
	if err != nil {
		t.Fatal(err)
	}
	choices, err := m.Explain(map[string]int64{"N": 3})
	if err != nil || len(choices) != 1 {
		t.Fatalf("found %v (%v)", choices, err)
	}
	const why = "no kernel; copied to the host: a (24 bytes); copied to the device: b (24 bytes)"
	if choices[0].Why != why || !strings.Contains(plan, "on the host: "+why) ||
		!strings.Contains(plan, "softmax_exp, softmax_divide") || !strings.HasPrefix(plan, "4 launches") {
		t.Errorf("found %v, and the plan\n%s", choices, plan)
	}
	b := newBackend()
	b.Fallback = false
	g, err := backendtest.ParseGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	var refused *runtime.UnsupportedError
	if _, err := runtime.New(g, runtime.Options{Backend: b}); !errors.As(err, &refused) || refused.Node.Op.Name != "Einsum" {
		t.Errorf("expected that Einsum is refused, found %v", err)
	}
}

// Runs bind the program for the values of small inputs that decide about shapes.
func TestValues(t *testing.T) {
	m := model(t, New(), nil, `g (float[N] x, int64[2] shape) => (y) {
		a = Reshape (x, shape)
		y = Softmax (a)
	}`)
	s := m.NewSession()
	x := tensor.New(tensor.Float32, 12)
	held := int64(0)
	for round := range 3 {
		for _, rows := range []int64{1, 2, 3, 4, 6, 12} {
			shape := tensor.FromSlice([]int64{rows, -1}, 2)
			out, err := s.Run(context.Background(), data{"x": x, "shape": shape})
			if err != nil {
				t.Fatal(err)
			}
			if y := out["y"].(*tensor.Tensor); y.Dim(0) != int(rows) || tensor.Data[float32](y)[0] != float32(rows)/12 {
				t.Errorf("%d rows: found %s", rows, y)
			}
		}
		if round == 0 {
			held = s.Memory()
		} else if now := s.Memory(); now != held {
			t.Errorf("%d bytes are held after the first round, %d after round %d", held, now, round)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
