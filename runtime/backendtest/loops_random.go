package backendtest

import (
	"fmt"
	"strings"
)

// RandomLoops returns the text of a random graph of nested loops, at most three deep, with branches. Its inputs are a,
// b float[2,3], xs float[N,2,3] and count int64.
func RandomLoops(seed uint64) string {
	w := &loopWriter{numbers: newNumbers(seed)}
	return w.graph()
}

// loopWriter writes random graphs of nested loops over values of one shape.
type loopWriter struct {
	numbers
	text  strings.Builder
	names int
}

func (w *loopWriter) name() string {
	w.names++
	return fmt.Sprintf("v%d", w.names)
}

func (w *loopWriter) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// pick returns one of the values. The last ones are more likely.
func (w *loopWriter) pick(of []string) string {
	return of[max(w.IntN(len(of)), w.IntN(len(of)))]
}

// nodes writes nodes that read values, and returns the values with the new ones.
func (w *loopWriter) nodes(values []string, depth int) []string {
	values = append([]string(nil), values...)
	for range 1 + w.IntN(4) {
		kind := w.IntN(10)
		if depth >= 3 {
			kind = w.IntN(6)
		}
		y := w.name()
		switch kind {
		case 0, 1:
			w.line("%s = %s (%s, %s)", y, []string{"Add", "Sub", "Mul", "Max"}[w.IntN(4)], w.pick(values),
				w.pick(values))
		case 2, 3:
			w.line("%s = %s (%s)", y, []string{"Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Identity"}[w.IntN(6)],
				w.pick(values))
		case 4:
			w.line("%s = MatMul (%s, m)", y, w.pick(values))
		case 5:
			a := w.name()
			w.line("%s = MatMul (%s, m)", a, w.pick(values))
			w.line("%s = Softmax (%s)", y, a)
		case 6:
			c, p := w.name(), w.name()
			w.line("%s = ReduceSum <keepdims: int = 0> (%s)\n%s = Less (%s, zero)", p, w.pick(values), c, p)
			w.line("%s = If (%s) <then_branch: graph = then () => (float[2,3] %s_a) {", y, c, y)
			w.line("%s_a = Tanh (%s)", y, w.pick(w.nodes(values, depth+1)))
			w.line("}, else_branch: graph = else () => (float[2,3] %s_b) {", y)
			w.line("%s_b = Neg (%s)\n}>", y, w.pick(w.nodes(values, depth+1)))
		default:
			values = append(values, w.loop(values, depth)...)
			continue
		}
		values = append(values, y)
	}
	return values
}

// loop writes a Loop or Scan, and returns its outputs.
func (w *loopWriter) loop(values []string, depth int) []string {
	scan := w.IntN(2) == 0
	carried, outs := 1+w.IntN(2), w.IntN(3)
	var starts, ins, inner, results, raw []string
	for range carried {
		h := w.name()
		starts, inner, results = append(starts, w.pick(values)), append(inner, h), append(results, w.name())
		ins = append(ins, "float[2,3] "+h)
	}
	for range outs {
		raw = append(raw, w.name())
	}
	id := w.name()
	if scan {
		x := w.name()
		w.line("%s = Scan <num_scan_inputs: int = 1, scan_input_directions: ints = [%d], body: graph = %s_g (%s, "+
			"float[2,3] %s) => (", strings.Join(append(results, raw...), ", "), w.IntN(2), id, strings.Join(ins, ", "),
			x)
		inner = append(inner, x)
	} else {
		w.line("%s = Loop (%s, \"\", %s) <body: graph = %s_g (int64 %s_t, bool %s_c, %s) => (bool %s_more, ",
			strings.Join(append(results, raw...), ", "), []string{"two", "count", "\"\""}[w.IntN(3)],
			strings.Join(starts, ", "), id, id, id, strings.Join(ins, ", "), id)
	}
	var ends []string
	for i := range carried + outs {
		ends = append(ends, fmt.Sprintf("float[2,3] %s_%d", id, i))
	}
	w.line("%s) {", strings.Join(ends, ", "))
	all := w.nodes(append(append([]string(nil), values...), inner...), depth+1)
	for i := range carried + outs {
		if v := w.pick(all); i < carried && w.IntN(4) == 0 { // kept or exchanged
			w.line("%s_%d = Identity (%s)", id, i, inner[w.IntN(carried)])
		} else {
			w.line("%s_%d = Tanh (%s)", id, i, v)
		}
	}
	if scan {
		w.line("}> (%s, xs)", strings.Join(starts, ", "))
	} else {
		w.line("%s_more = Less (%s_t, two)\n}>", id, id)
	}
	for _, o := range raw {
		y := w.name()
		w.line("%s = ReduceMax <keepdims: int = 0> (%s, axis)", y, o)
		results = append(results, y)
	}
	return results
}

// graph writes a graph.
func (w *loopWriter) graph() string {
	last := w.loop([]string{"a", "b"}, 0)
	return "g (float[2,3] a, float[2,3] b, float[N,2,3] xs, int64 count) => (" + strings.Join(last, ", ") +
		") <float[3,3] m = {0.5, -0.3, 0.8, 0.2, 0.9, -0.6, 0.4, 0.1, -0.7}, int64 two = {2}, float zero = {0}, " +
		"int64[1] axis = {0}> {\n" + w.text.String() + "}"
}
