package lowering_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering"
)

// fusionCases are graphs whose first step is a producer: the steps that join it, the expression of the last one, and
// the operands of the fusion.
var fusionCases = []struct {
	name, nodes, out string
	most             int
	ready            bool // operands must be ready before the producer begins
	joins, want      string
}{
	{name: "a chain", nodes: `p = MatMul (x, w)
			a = Add (p, feature)
			y = Tanh (a)`,
		joins: "a y", want: "tanh(x0 + x1) of p, feature per feature"},
	{name: "operands by their shapes", nodes: `p = MatMul (x, w)
			a = Add (p, x)
			b = Mul (a, row)
			c = Sub (b, two)
			d = Mul (c, q)
			y = Max (d, sample)`,
		joins: "a b c d y",
		want:  "max(((x0 + x1)*x2 - 2)*x3, x4) of p, x same, row per row, q single, sample general"},
	{name: "an operand that is read twice has one number", nodes: `p = MatMul (x, w)
			a = Add (p, x)
			y = Mul (a, x)`,
		joins: "a y", want: "(x0 + x1)*x1 of p, x same"},
	{name: "two steps read the producer", nodes: `p = MatMul (x, w)
			a = Sigmoid (p)
			y = Mul (p, a)`,
		joins: "a y", want: "x0*sigmoid(x0) of p"},
	{name: "a result that another step reads ends the group", nodes: `p = MatMul (x, w)
			a = Neg (p)
			b = Tanh (a)
			z = Softmax (a)
			y = Add (b, z)`,
		joins: "a", want: "-x0 of p"},
	{name: "a step that cannot join ends the group, though it could go on", nodes: `p = MatMul (x, w)
			z = Softmax (p)
			y = Tanh (p)`, out: "y, z"},
	{name: "an operand that depends on the result", nodes: `p = MatMul (x, w)
			s = Softmax (p)
			y = Add (p, s)`},
	{name: "another step may come between", nodes: `p = MatMul (x, w)
			a = Neg (p)
			s = Softmax (x)
			y = Add (a, s)`,
		joins: "a y", want: "-x0 + x1 of p, s same"},
	{name: "but not where operands must be ready", ready: true, nodes: `p = MatMul (x, w)
			a = Neg (p)
			s = Softmax (x)
			y = Add (a, s)`,
		joins: "a", want: "-x0 of p"},
	{name: "an output ends the group", nodes: `p = MatMul (x, w)
			y = Neg (p)
			z = Tanh (y)`, out: "y, z",
		joins: "y", want: "-x0 of p"},
	{name: "an output of the producer", nodes: `y = MatMul (x, w)
			z = Tanh (y)`, out: "y, z"},
	{name: "two results", nodes: `p, o = Split <axis: int = 2, num_outputs: int = 2> (x)
			a = Sigmoid (o)
			y = Mul (p, a)`,
		joins: "a y", want: "x0*sigmoid(x1) of p, o"},
	{name: "two results, of which one is read elsewhere", nodes: `p, o = Split <axis: int = 2, num_outputs: int = 2> (x)
			a = Sigmoid (o)
			z = Softmax (o)
			y = Mul (p, a)`, out: "y, z"},
	{name: "the group closes again", nodes: `p = MatMul (x, w)
			a = Neg (p)
			b = Tanh (a)
			y = Add (a, b)`,
		joins: "a b y", want: "t0 = -x0; t0 + tanh(t0) of p"},
	{name: "the last point where it is closed counts", most: 2, nodes: `p = MatMul (x, w)
			a = Neg (p)
			b = Tanh (a)
			y = Add (a, b)`,
		joins: "a", want: "-x0 of p"},
	{name: "a result of another shape", nodes: `p = MatMul (x, w)
			a = Neg (p)
			y = Add (a, large)`,
		joins: "a", want: "-x0 of p"},
	{name: "a comparison of truth values", nodes: `p = MatMul (x, w)
			c = Less (p, x)
			y = Where (c, p, x)`,
		joins: "c y", want: "select(x0 < x1, x0, x1) of p, x same"},
}

// TestFollow checks which steps join a producer, and what they compute together.
func TestFollow(t *testing.T) {
	spreads := map[lowering.Spread]string{lowering.General: "general", lowering.Same: "same", lowering.Single: "single",
		lowering.PerFeature: "per feature", lowering.PerRow: "per row"}
	for _, c := range fusionCases {
		t.Run(c.name, func(t *testing.T) {
			if c.out == "" {
				c.out = "y"
			}
			d := bindFusion(t, c.nodes, c.out)
			steps := d.Program.Steps
			first := steps[0]
			shape := d.Shape(first.Out[0])
			f := lowering.NewFusion(d, shape, func(_ scalar.Expr, _ *lowering.Step, operands []*lowering.Value) bool {
				for _, v := range operands[len(first.Out):] {
					if c.ready && !d.Before(v, first.Out[0]) {
						return false
					}
				}
				return true
			}, first.Out...)
			most := 10
			if c.most > 0 {
				most = c.most
			}
			joined := d.Follow(steps[:1], steps[1:], most, nil, f.Add)
			var names []string
			for _, s := range joined {
				names = append(names, s.Out[0].Name)
			}
			if got := strings.Join(names, " "); got != c.joins {
				t.Fatalf("found %q, expected %q\n%v", got, c.joins, d)
			}
			if len(joined) == 0 {
				return
			}
			e := f.Of(joined[len(joined)-1].Out[0])
			var operands []string
			for i, v := range f.Operands[:e.Reads()[len(e.Reads())-1]+1] {
				text := v.Name
				if i >= len(first.Out) {
					text += " " + spreads[lowering.SpreadOf(d.Shape(v), shape)]
				}
				operands = append(operands, text)
			}
			if got := fmt.Sprint(e, " of ", strings.Join(operands, ", ")); got != c.want {
				t.Errorf("found %q, expected %q", got, c.want)
			}
		})
	}
}

// A result of the group that is free may be read by others.
func TestFollowFree(t *testing.T) {
	d := bindFusion(t, `p, o = Split <axis: int = 2, num_outputs: int = 2> (x)
		z = Softmax (o)
		y = Neg (p)`, "y, z")
	s := d.Program.Steps
	neg := func(s *lowering.Step) bool { return s.Node.Op.Name == "Neg" }
	later := []*lowering.Step{s[2]}
	if got := d.Follow(s[:1], later, 10, s[0].Out[1], neg); len(got) != 1 || got[0] != s[2] {
		t.Errorf("found %v, expected Neg", got)
	}
	if got := d.Follow(s[:1], later, 10, nil, neg); len(got) != 0 {
		t.Errorf("found %v, expected nothing: o is read by Softmax", got)
	}
}

// TestFollowWide has a result with many readers: the time is proportional to the reads, where looking at all results
// after each step would take minutes.
func TestFollowWide(t *testing.T) {
	const n = 2000
	var nodes strings.Builder
	nodes.WriteString("p = MatMul (x, w)\n")
	for i := range n {
		fmt.Fprintf(&nodes, "a%d = Neg (p)\n", i)
	}
	nodes.WriteString("y = Sum (a0")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&nodes, ", a%d", i)
	}
	nodes.WriteString(")")
	d := bindFusion(t, nodes.String(), "y")
	steps := d.Program.Steps
	got := d.Follow(steps[:1], steps[1:], len(steps), nil, func(*lowering.Step) bool { return true })
	if len(got) != n+1 {
		t.Errorf("%d steps joined, expected %d", len(got), n+1)
	}
}

// Sole is the only reader, once; outputs and inputs have none.
func TestSole(t *testing.T) {
	d := bindFusion(t, `a = Neg (x)
		b = Tanh (a)
		c = Mul (b, b)
		y = Abs (c)
		z = Sigmoid (y)`, "y, z")
	s := d.Program.Steps
	for i, want := range []*lowering.Step{s[1], nil, s[3], nil, nil} {
		if got := d.Sole(s[i].Out[0]); got != want {
			t.Errorf("of %s: found %v, expected %v", s[i].Out[0].Name, got, want)
		}
		if d.Maker(s[i].Out[0]) != s[i] {
			t.Errorf("%s is made by %v", s[i].Out[0].Name, d.Maker(s[i].Out[0]))
		}
	}
	if x := s[0].In[0]; d.Sole(x) != nil || d.Maker(x) != nil {
		t.Error("an input has a maker, or a sole reader")
	}
}

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		shape, result []int
		want          lowering.Spread
	}{
		{[]int{2, 3, 4}, []int{2, 3, 4}, lowering.Same},
		{[]int{3, 4}, []int{1, 3, 4}, lowering.Same},
		{nil, nil, lowering.Same},
		{[]int{1, 1}, []int{1}, lowering.General},
		{nil, []int{2, 3}, lowering.Single},
		{[]int{1, 1}, []int{2, 3}, lowering.Single},
		{[]int{1}, []int{3, 1}, lowering.Single},
		{[]int{4}, []int{2, 3, 4}, lowering.PerFeature},
		{[]int{1, 4}, []int{2, 4}, lowering.PerFeature},
		{[]int{4}, []int{0, 4}, lowering.PerFeature},
		{[]int{2, 3, 1}, []int{2, 3, 4}, lowering.PerRow},
		{[]int{3, 1}, []int{1, 3, 4}, lowering.PerRow},
		{[]int{3, 1}, []int{2, 3, 4}, lowering.General},
		{[]int{2, 1, 4}, []int{2, 3, 4}, lowering.General},
		{[]int{3}, []int{2, 4}, lowering.General},
		{[]int{3}, []int{2, 1}, lowering.General},
	} {
		if got := lowering.SpreadOf(c.shape, c.result); got != c.want {
			t.Errorf("%v to %v: found %d, expected %d", c.shape, c.result, got, c.want)
		}
	}
}

// Results are rounded as they are in memory, and constants of one number are part of the expression.
func TestFusionRounds(t *testing.T) {
	g, err := backendtest.ParseGraph(`g (float16[2,3] x) => (y) <float16 two = {16384}> {
		a = Neg (x)
		y = Mul (a, two)
	}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := lowering.Lower(g, runtime.Config{}, rowTaker{})
	if err != nil {
		t.Fatal(err)
	}
	d := p.Bind(runtime.Binding{Inputs: []ir.Type{ir.Tensor(tensor.Float16, 2, 3)}}, nil)
	f := lowering.NewFusion(d, []int{2, 3}, func(scalar.Expr, *lowering.Step, []*lowering.Value) bool { return true })
	for _, s := range p.Steps {
		if !f.Add(s) {
			t.Fatalf("%v does not join", s)
		}
	}
	// 16384 are the bits of 2 in float16.
	if got, want := f.Of(p.Steps[1].Out[0]).String(), "float16(float16(-x0)*2)"; got != want {
		t.Errorf("found %s, expected %s", got, want)
	}
	if f.Of(&lowering.Value{}).Valid() {
		t.Error("a value that is neither a result nor an operand has an expression")
	}
}

// bindFusion binds a graph of x and q with 2 samples of 3 steps.
func bindFusion(t *testing.T, nodes, out string) *lowering.Binding {
	t.Helper()
	g, err := backendtest.ParseGraph(`g (float[2,3,4] x, float[1] q) => (` + out + `)
		<float[4,4] w = {` + strings.Repeat("1, ", 15) + `1}, float[4] feature = {1, 2, 3, 4},
		float[2,3,1] row = {1, 2, 3, 4, 5, 6}, float[2,1,1] sample = {1, 2}, float two = {2},
		float[2,2,3,4] large = {` + strings.Repeat("1, ", 47) + `1}> {
			` + nodes + `
		}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := lowering.Lower(g, runtime.Config{}, rowTaker{})
	if err != nil {
		t.Fatal(err)
	}
	types := []ir.Type{ir.Tensor(tensor.Float32, 2, 3, 4), ir.Tensor(tensor.Float32, 1)}
	d := p.Bind(runtime.Binding{Inputs: types}, nil)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}
