package open

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// sample returns a graph that takes pairs of x, and z of any shape. y has the shape of x.
func sample(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "2*P", "L", ir.Unknown))
	y := b.Input("y", ir.Tensor(tensor.Float32, "L", 3))
	z := b.Input("z", &ir.TensorType{Elem: tensor.Float32, NoRank: true})
	b.Output("a", b.Op("", "Neg", []*ir.Value{x}))
	b.Output("b", b.Op("", "Neg", []*ir.Value{y}))
	b.Output("c", b.Op("", "Neg", []*ir.Value{z}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g.Meta = map[string]string{ir.MetaTime: "L", ir.MetaBatch: "P"}
	return g
}

func TestBind(t *testing.T) {
	for _, c := range []struct {
		shapes string
		types  string // of a, b and c, or the error
		dims   int
		time   string
	}{
		{"", "float[2*P,L,?] float[L,3] float[]", 0, "L"},
		{"L=7", "float[2*P,7,?] float[7,3] float[]", 1, ""},
		{"P=2 y=5,3", "float[4,5,?] float[5,3] float[]", 2, ""},
		{"x=_,T,F", "float[2*P,T,F] float[T,3] float[]", 0, "T"},
		{"x=_,_,8 z=L,2", "float[2*P,L,8] float[L,3] float[L,2]", 0, "L"},
		{"x=4,5,6 P=2", "float[4,5,6] float[5,3] float[]", 2, ""},
		{"L=0", "float[2*P,0,?] float[0,3] float[]", 1, ""},
		{"x=4,5,6", "dimension 0 of input x is 2*P, found 4; state P by itself", 0, ""},
		{"x=4,5,6 P=3", "dimension 0 of input x is 2*P, found 4", 0, ""},
		{"L=4 y=5,3", "L is 4 elsewhere, found 5", 0, ""},
		{"x=4,5", "input x has 3 dimensions", 0, ""},
		{"z=1,2 z=1,2,3", "input z has 2 dimensions elsewhere, found 3", 0, ""},
		{"x=_,_,8 x=_,_,9", "dimension 2 of input x is 8 elsewhere, found 9", 0, ""},
		{"x=_,_,8 x=_,4,_", "float[2*P,4,8] float[4,3] float[]", 1, ""},
		{"Q=1", "neither an input nor a dimension Q; inputs: x, y, z; dimensions: P, L", 0, ""},
	} {
		t.Run(c.shapes, func(t *testing.T) {
			var stated shapes
			for _, s := range strings.Fields(c.shapes) {
				sh, err := parseShape(s)
				if err != nil || sh.String() != s {
					t.Fatalf("%s is read as %v: %v", s, sh, err)
				}
				stated = append(stated, sh)
			}
			g := sample(t)
			dims, err := stated.bind(g)
			if err != nil {
				if !strings.Contains(err.Error(), c.types) {
					t.Errorf("%v, expected %s", err, c.types)
				}
				return
			}
			var types []string
			for _, v := range g.Outputs {
				types = append(types, v.Type.String())
			}
			if got := strings.Join(types, " "); got != c.types || len(dims) != c.dims || g.Meta[ir.MetaTime] != c.time {
				t.Errorf("%s, %v, time %q; expected %s, %d dimensions, time %q", got, dims, g.Meta[ir.MetaTime],
					c.types, c.dims, c.time)
			}
		})
	}
}
