package raise_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// unrolledVarying is s[t] = f[t]·s[t-1] + v[t], with the product with c[t] as output if there is a c, written step by
// step. f and v are (samples, features, steps, states); without c, (samples, steps, features). change may return
// another index for the step of a sequence, or another first state.
func unrolledVarying(t *testing.T, read bool, change func(name string, step int) int, first float64) *ir.Graph {
	t.Helper()
	const steps = 5
	l := newLayer()
	sequence := func(name string, shape ...any) *ir.Value { return l.Input(name, ir.Tensor(tensor.Float32, shape...)) }
	shape, axis := []any{"B", steps, 3}, 1
	if read {
		shape, axis = []any{"B", 3, steps, 2}, 2
	}
	f, v := sequence("f", shape...), sequence("v", shape...)
	var c *ir.Value
	if read {
		c = sequence("c", "B", steps, 2)
	}
	at := func(x *ir.Value, name string, step, axis int) *ir.Value {
		return l.op("Gather", x, l.scalar(change(name, step)), ir.A("axis", axis))
	}
	size := []float64{first, first, first, first, first, first}
	state := l.floats("first", size[:3], 1, 3)
	if read {
		state = l.floats("first", size, 1, 3, 2)
	}
	var out []any
	for t := range steps {
		state = l.op("Add", at(v, "v", t, axis), l.op("Mul", state, at(f, "f", t, axis)))
		y := state
		if read {
			y = l.op("Squeeze", l.op("MatMul", state, l.op("Unsqueeze", at(c, "c", t, 1), -1)), -1)
		}
		out = append(out, l.op("Unsqueeze", y, 2))
	}
	l.Output("y", l.op("Concat", append(out, ir.A("axis", 2))...))
	return l.graph(t)
}

// TestGated raises recurrences whose coefficients have no structure, with states as outputs or products with them.
func TestGated(t *testing.T) {
	for _, read := range []bool{false, true} {
		g := unrolledVarying(t, read, func(_ string, step int) int { return step }, 0)
		r := raised(t, g)
		if count(r, "essm.GatedScan") != 1 || count(r, "Gather", "Concat") != 0 {
			t.Errorf("with a product %v: nodes %v", read, r.Nodes)
		}
		agree(t, g, r, 1e-12, map[string]int64{"B": 2})
	}
}

// TestGatedLooksAlike changes one number. Nothing must be raised then.
func TestGatedLooksAlike(t *testing.T) {
	for _, wrong := range []string{"f", "v", "c", "first"} {
		for _, step := range []int{0, 3} {
			t.Run(fmt.Sprint(wrong, step), func(t *testing.T) {
				first := 0.0
				if wrong == "first" {
					first = 0.5
				}
				g := unrolledVarying(t, true, func(name string, at int) int {
					if name == wrong && at == step {
						return 4 - at
					}
					return at
				}, first)
				r := raised(t, g)
				if count(r, "essm.GatedScan", "essm.SelectiveScan") != 0 {
					t.Errorf("it is raised: nodes %v", r.Nodes)
				}
				agree(t, g, r, 1e-12, map[string]int64{"B": 2})
			})
		}
	}
}
