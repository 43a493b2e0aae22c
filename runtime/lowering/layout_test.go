package lowering_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering"
)

// rowTaker is a backend that computes nothing. It takes all forms but those that it is told to refuse.
type rowTaker struct {
	refuses func(r *lowering.OnRows) bool
	asked   *[]string // the shapes that Takes was asked about
}

func (rowTaker) Name() string { return "taker" }

func (rowTaker) Implement(*lowering.Compiler, *lowering.Step) lowering.Support {
	return lowering.Implemented
}

func (rowTaker) LeastSteps() int { return 8 }

func (rowTaker) Looks(s *lowering.Step) bool {
	return slices.Contains([]string{"Conv", "MaxPool", "LongConv"}, s.Node.Op.Name)
}

func (b rowTaker) Takes(_ *lowering.Binding, s *lowering.Step, r *lowering.OnRows, in [][]int, out []int) bool {
	*b.asked = append(*b.asked, tensor.ShapeString(slices.Concat(append(in, out)...)))
	if s.Node.Op.Name == "MaxPool" && r.Padded || b.refuses != nil && b.refuses(r) {
		return false
	}
	r.Impl = "taken"
	return true
}

func (b rowTaker) Make(s *lowering.Step) {
	asked := []lowering.RowKind{lowering.RowsAlone, lowering.RowsWindow, lowering.RowsShift, lowering.RowsSum}
	if slices.Contains(asked, s.Rows.Kind) && s.Rows.Impl != "taken" {
		panic("made a step that was not taken")
	}
}

// layoutCases are graphs of x, which has 5 features, and the steps that are left where 2 samples of 20 steps are
// bound: the operators, and how they work on rows.
var layoutCases = []struct {
	name, in, nodes, want string
	refuses               func(r *lowering.OnRows) bool
}{
	{name: "a window pays for two transposes", in: "B,5,L",
		nodes: `y = Conv <pads: ints = [2, 0]> (x, w)`,
		want:  `Conv: to rows; Conv: on rows; Conv: from rows`},
	{name: "but not for three", in: "B,5,L",
		nodes: `y = Conv <pads: ints = [2, 0]> (x, w)
			z = ReduceSum <keepdims: int = 0> (x, one)`,
		want: `Conv; ReduceSum`},
	{name: "what the backend refuses stays", in: "B,5,L",
		nodes:   `y = Conv <pads: ints = [2, 0]> (x, w)`,
		refuses: func(r *lowering.OnRows) bool { return r.Kind == lowering.RowsWindow },
		want:    `Conv`},
	{name: "a convolution with a stride is no window", in: "B,5,L",
		nodes: `y = Conv <pads: ints = [1, 1], strides: ints = [2]> (x, w)`,
		want:  `Conv`},
	{name: "a Pad before a window", in: "B,5,L",
		nodes: `p = Pad (x, pads)
			y = Conv (p, w)`,
		want: `Pad: to rows; Conv: on rows, moved by -2; Conv: from rows`},
	{name: "a Pad that others read stays as well", in: "B,5,L",
		nodes: `z = Pad (x, pads)
			c = Conv (z, w)
			y = Conv <pads: ints = [2, 0]> (c, w)`,
		want: `Pad: to rows; Pad; Conv: on rows, moved by -2; Conv: on rows; Conv: from rows`},
	{name: "a Pad before a window that has another edge", in: "B,5,L",
		nodes: `p = Pad (x, pads)
			y = MaxPool <kernel_shape: ints = [3]> (p)`,
		want: `Pad; MaxPool`},
	{name: "a Slice behind a window", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 2]> (x, w)
			y = Slice (c, zero, less, two)`,
		want: `Conv: to rows; Conv: on rows; Conv: from rows`},
	{name: "a Slice of the later steps looks ahead", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 2]> (x, w)
			y = Slice (c, two, most, two)`,
		want: `Conv: to rows; Conv: on rows, moved by 2; Conv: from rows`},
	{name: "a Slice that a window has absorbed is no part of a shift", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 2]> (x, w)
			s = Slice (c, two, most, two)
			y = Pad (s, ends)`,
		want: `Conv: to rows; Conv: on rows, moved by 2; Conv: from rows; Pad`},
	{name: "a Pad that a window has absorbed is not absorbed again", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 0]> (x, w)
			p = Pad (c, nothing)
			y = Conv <pads: ints = [2, 0]> (p, w)`,
		want: `Conv: to rows; Conv: on rows; Conv: on rows; Conv: from rows`},
	{name: "a Slice and a Pad shift", in: "B,L,5",
		nodes: `s = Slice (x, zero, less, one)
			y = Pad (s, rowpads)`,
		want: `Pad: rows moved by -2`},
	{name: "a Pad and a Slice shift", in: "B,L,5",
		nodes: `p = Pad (x, rowends)
			y = Slice (p, two, most, one)`,
		want: `Slice: rows moved by 2`},
	{name: "what was cut off does not come back", in: "B,L,5",
		nodes: `s = Slice (x, one, less1, one)
			y = Pad (s, rowboth)`,
		want: `Slice; Pad`},
	{name: "features are cut, joined, and computed", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 0]> (x, w)
			a, b = Split <axis: int = 1> (c, sizes)
			t = Tanh (a)
			j = Concat <axis: int = 1> (t, b, t)
			y = Mul (j, channels)`,
		want: `Conv: to rows; Conv: on rows; Split: features from 0; Split: features from 2; Tanh: on rows; ` +
			`Concat: on rows; Mul: on rows; Mul: from rows`},
	{name: "zeros beside features are not left out", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 0]> (x, w)
			y = Concat <axis: int = 1> (zeros, c, c)`,
		want: `Conv: to rows; Conv: on rows; Conv: from rows; Concat`},
	{name: "numbers for each step are no constants of rows", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 0]> (x, w)
			y = Mul (c, steps)`,
		want: `Conv: to rows; Conv: on rows; Conv: from rows; Mul`},
	{name: "transposes of the graph vanish", in: "B,L,5",
		nodes: `t = Transpose <perm: ints = [0, 2, 1]> (x)
			c = Conv <pads: ints = [2, 0]> (t, w)
			r = Relu (c)
			y = Transpose <perm: ints = [0, 2, 1]> (r)`,
		want: `Conv: on rows; Relu: on rows`},
	{name: "two transposes of one sequence are one", in: "B,5,L",
		nodes: `c = Conv <pads: ints = [2, 0]> (x, w)
			y = Transpose <perm: ints = [0, 2, 1]> (c)
			z = Transpose <perm: ints = [0, 2, 1]> (c)`,
		want: `Conv: to rows; Conv: on rows; Transpose: on rows`},
	{name: "sums go forward", in: "B,L,5",
		nodes: `y = CumSum <exclusive: int = 1> (x, at)
			z = CumSum <reverse: int = 1> (x, at)`,
		want: `CumSum: on rows; CumSum`},
	{name: "sums along features are none", in: "B,5,L",
		nodes: `y = CumSum (x, at)`,
		want:  `CumSum`},
}

func TestLayouts(t *testing.T) {
	for _, c := range layoutCases {
		t.Run(c.name, func(t *testing.T) {
			asked := []string{}
			b := rowTaker{c.refuses, &asked}
			for _, length := range []int{20, 6} {
				d := bindLayout(t, c.in, c.nodes, length, b)
				m := d.TimeMajor(b)
				got := stepsText(m)
				want := c.want
				if length == 6 { // shorter than is worth it
					want = stepsText(d)
				}
				if got != want {
					t.Errorf("%d steps: found %s, expected %s\n%v", length, got, want, m)
				}
				if got == stepsText(d) && m != d {
					t.Errorf("%d steps: a binding that is the same, but not d", length)
				}
			}
			for _, s := range asked {
				if !strings.HasPrefix(s, "[2,20,") && !strings.HasPrefix(s, "[2,6,") {
					t.Errorf("asked about shapes %s, which are not rows", s)
				}
			}
		})
	}
}

// A graph that does not declare its time is left as it is.
func TestLayoutWithoutTime(t *testing.T) {
	b := rowTaker{asked: new([]string)}
	d := bindLayout(t, "B,5,20", `y = Conv <pads: ints = [2, 0]> (x, w)`, 20, b)
	if d.TimeMajor(b) != d {
		t.Error("sequences became rows")
	}
}

// bindLayout binds a graph of x with 2 samples of so many steps.
func bindLayout(t *testing.T, in, nodes string, length int, b lowering.Backend) *lowering.Binding {
	t.Helper()
	out := "y"
	if strings.Contains(nodes, "z = ") {
		out += ", z"
	}
	all := func(x string, n int) string { return strings.Repeat(x+", ", n-1) + x }
	g, err := backendtest.ParseGraph(`g (float[` + in + `] x) => (` + out + `)
		<float[5,5,3] w = {` + all("1", 75) + `}, float[7,1] channels = {` + all("1", 7) + `},
		float[20] steps = {` + all("1", 20) + `}, float[2,1,20] zeros = {` + all("0", 40) + `},
		int64[6] pads = {0, 0, 2, 0, 0, 0}, int64[6] ends = {0, 0, 0, 0, 0, 2}, int64[6] nothing = {0, 0, 0, 0, 0, 0},
		int64[6] rowpads = {0, 2, 0, 0, 0, 0}, int64[6] rowends = {0, 0, 0, 0, 2, 0},
		int64[6] rowboth = {0, 1, 0, 0, 1, 0},
		int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] less = {-2}, int64[1] less1 = {-1},
		int64[1] most = {9223372036854775807}, int64[2] sizes = {2, 3}, int64 at = {1}> {
			` + nodes + `
		}`)
	if err != nil {
		t.Fatal(err)
	}
	g.Meta[ir.MetaTime], g.Meta[ir.MetaBatch] = "L", "B"
	p, err := lowering.Lower(g, runtime.Config{}, b)
	if err != nil {
		t.Fatal(err)
	}
	x := []int64{2, 5, int64(length)}
	if in == "B,L,5" {
		x[1], x[2] = x[2], x[1]
	}
	return p.Bind(runtime.Binding{
		Dims:   map[string]int64{"B": 2, "L": int64(length)},
		Inputs: []ir.Type{ir.Tensor(tensor.Float32, x[0], x[1], x[2])},
	}, nil)
}

// stepsText names the steps, and how they work on rows.
func stepsText(d *lowering.Binding) string {
	var steps []string
	for _, s := range d.Program.Steps {
		name := s.Node.Op.Name
		if s.Rows != nil {
			name += ": " + s.Rows.String()
		}
		steps = append(steps, name)
	}
	return strings.Join(steps, "; ")
}
