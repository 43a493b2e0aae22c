package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

// chunked runs a model in chunks. It knows the axis of time of each input.
type chunked struct {
	*runtime.Stream
	timing runtime.Timing
	axes   map[string]int // from inputs that vary along time to their axis
	batch  int
}

// computeChunks runs the model as a stream.
func computeChunks(cmd *cobra.Command, model *runtime.Model, in *feed.Inputs,
	size int) (map[string]tensor.Datum, error) {
	c, err := newChunked(cmd.Context(), model, samples(model, in.Data), size)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	step, done := bar(cmd, c.chunks(in.Data, size), "streaming")
	defer done()
	out, err := c.all(cmd.Context(), in.Data, size, step)
	if err != nil {
		return nil, in.Locate(err)
	}
	return out, nil
}

// chunks returns the approximate number of chunks of size steps in the inputs.
func (c *chunked) chunks(in map[string]tensor.Datum, size int) int {
	n := 1
	for name, axis := range c.axes {
		if t, ok := in[name].(*tensor.Tensor); ok && axis < t.Rank() {
			n = max(n, (t.Dim(axis)+int(c.timing.Flush)+size-1)/size)
		}
	}
	return n
}

// withoutStates lists the inputs of a model, except the states that a stream sets itself.
func withoutStates(model *runtime.Model) []runtime.Port {
	return slices.DeleteFunc(model.Inputs(), func(p runtime.Port) bool {
		return !p.Optional && isState(model.Graph(), p.Name)
	})
}

// isState reports whether the graph declares an input as a state.
func isState(g *ir.Graph, input string) bool {
	for _, key := range []string{ir.MetaState, ir.MetaCarry} {
		pairs, err := stepgraph.Pairs(g, key)
		if err == nil && slices.ContainsFunc(pairs, func(p stepgraph.Pair) bool { return p.In == input }) {
			return true
		}
	}
	return false
}

// keepGiven makes a state that the caller gives an ordinary input, with which a stream begins.
func keepGiven(m *open.Model, inputs []string) error {
	g, err := m.Source()
	if err != nil {
		return err
	}
	pairs, err := stepgraph.Pairs(g, ir.MetaState)
	if err != nil {
		return nil // NewStream returns the error
	}
	for _, p := range pairs {
		if m.Kind != open.Plan && slices.ContainsFunc(inputs,
			func(s string) bool { return strings.HasPrefix(s, p.In+"=") }) {
			delete(g.Meta, ir.MetaState)
		}
	}
	return nil
}

// newChunked returns a stream of batch samples, for chunks of size steps.
func newChunked(ctx context.Context, model *runtime.Model, batch, size int) (*chunked, error) {
	s, err := model.NewStreamContext(ctx, batch)
	if err != nil {
		return nil, err
	}
	c := &chunked{Stream: s, timing: s.Timing(), axes: map[string]int{}, batch: batch}
	if slices.ContainsFunc(s.Timing().Outputs, func(o stepgraph.Output) bool { return o.Kind == stepgraph.Chunk }) {
		c.timing.Multiple = int64(size) // the model takes chunks; a partial last chunk is padded
	}
	symbol := model.Meta()[ir.MetaTime]
	if symbol == "" {
		return c, nil
	}
	for _, p := range s.Inputs() {
		if t, ok := p.Type.(*ir.TensorType); ok {
			if axis := slices.IndexFunc(t.Shape, func(d ir.Dim) bool {
				return slices.Contains(d.Symbols(), symbol)
			}); axis >= 0 {
				c.axes[p.Name] = axis
			}
		}
	}
	return c, nil
}

// samples returns the value of the model's batch symbol for inputs.
func samples(model *runtime.Model, in map[string]tensor.Datum) int {
	g := model.Graph()
	symbol := g.Meta[ir.MetaBatch]
	for _, p := range model.Inputs() {
		t, isTensor := in[p.Name].(*tensor.Tensor)
		tt, declared := p.Type.(*ir.TensorType)
		if symbol == "" || !isTensor || !declared || t.Rank() != len(tt.Shape) {
			continue
		}
		for axis, d := range tt.Shape {
			if slices.Contains(d.Symbols(), symbol) {
				return max(1, t.Dim(axis)/int(samplesPer(g, symbol)))
			}
		}
	}
	return 1
}

// all runs whole inputs in chunks of size steps, and returns the same outputs as a run at once. It calls done after
// each chunk.
func (c *chunked) all(ctx context.Context, in map[string]tensor.Datum, size int,
	done func()) (map[string]tensor.Datum, error) {
	length := -1
	for _, p := range c.Inputs() {
		axis, varies := c.axes[p.Name]
		t, ok := in[p.Name].(*tensor.Tensor)
		if !varies || !ok {
			continue
		}
		if t.Rank() <= axis {
			return nil, &runtime.InputError{Name: p.Name, Msg: fmt.Sprintf("expected %v, found %s", p.Type, t)}
		}
		if length >= 0 && t.Dim(axis) != length {
			return nil, &runtime.InputError{Name: p.Name,
				Msg: fmt.Sprintf("has %d steps, another input %d", t.Dim(axis), length)}
		}
		length = t.Dim(axis)
	}
	if length < 0 {
		return nil, fmt.Errorf("no input has a time dimension; --shape NAME=…,L,… names a variable one")
	}
	parts := map[string][]*tensor.Tensor{}
	out := map[string]tensor.Datum{}
	for at := 0; at == 0 || at < length+int(c.timing.Flush); {
		hi := at + c.round(size)
		if hi >= length { // the last chunk, padded with steps after the end
			hi = at + c.round(min(size, length+int(c.timing.Flush)-at))
		}
		chunk := map[string]tensor.Datum{}
		for name, d := range in {
			chunk[name] = d
			if axis, ok := c.axes[name]; ok {
				chunk[name] = section(d.(*tensor.Tensor), axis, at, hi)
			}
		}
		if hi >= length {
			c.end(chunk, length)
		}
		clear(out)
		err := c.Step(ctx, chunk, out)
		if err != nil {
			return nil, err
		}
		for _, o := range c.timing.Outputs {
			t, ok := out[o.Name].(*tensor.Tensor)
			if ok && o.Kind == stepgraph.Chunk {
				if t, err = t.Reshape(append([]int{1}, t.Shape()...)...); err != nil {
					return nil, err
				}
			}
			if ok && (o.Kind == stepgraph.Sequence || o.Kind == stepgraph.Chunk) {
				parts[o.Name] = append(parts[o.Name], t)
			}
		}
		at = hi
		done()
	}
	for _, o := range c.timing.Outputs {
		if o.Kind == stepgraph.Chunk && len(parts[o.Name]) > 0 {
			out[o.Name] = join(parts[o.Name], 0)
		}
		if o.Kind == stepgraph.Sequence && len(parts[o.Name]) > 0 {
			whole := join(parts[o.Name], o.Axis)
			out[o.Name] = section(whole, o.Axis, int(o.Delay), int(o.Delay+o.Steps(int64(length))))
		}
	}
	return out, nil
}

// round returns the least valid length of a chunk that is not below n.
func (c *chunked) round(n int) int {
	m := int(c.timing.Multiple)
	return max(1, (n+m-1)/m) * m
}

// end adds the length of the sequences to a chunk, if the model needs it.
func (c *chunked) end(chunk map[string]tensor.Datum, length int) {
	if c.timing.End == "" {
		return
	}
	n := c.batch
	for _, p := range c.Inputs() {
		if t, ok := p.Type.(*ir.TensorType); ok && p.Name == c.timing.End && len(t.Shape) == 1 {
			if k, fixed := t.Shape[0].Known(); fixed {
				n = int(k)
			} else if s := t.Shape[0].Symbols(); len(s) == 1 {
				if k, err := t.Shape[0].Eval(map[string]int64{s[0]: int64(c.batch)}); err == nil {
					n = int(k)
				}
			}
		}
	}
	chunk[c.timing.End] = tensor.FromSlice(slices.Repeat([]int64{int64(length)}, n), n)
}

// section returns steps lo to hi-1 of a tensor along an axis. Steps after its end are zeros.
func section(t *tensor.Tensor, axis, lo, hi int) *tensor.Tensor {
	shape := slices.Clone(t.Shape())
	shape[axis] = hi - lo
	y := tensor.New(t.DType(), shape...)
	outer := 1
	for _, n := range shape[:axis] {
		outer *= n
	}
	if n := min(hi, t.Dim(axis)) - lo; n > 0 && outer > 0 {
		step := len(t.Bytes()) / outer / t.Dim(axis)
		for i := range outer {
			copy(y.Bytes()[i*(hi-lo)*step:(i*(hi-lo)+n)*step], t.Bytes()[(i*t.Dim(axis)+lo)*step:])
		}
	}
	return y
}

// join concatenates tensors along an axis.
func join(parts []*tensor.Tensor, axis int) *tensor.Tensor {
	shape := slices.Clone(parts[0].Shape())
	shape[axis] = 0
	for _, p := range parts {
		shape[axis] += p.Dim(axis)
	}
	y := tensor.New(parts[0].DType(), shape...)
	outer := 1
	for _, n := range shape[:axis] {
		outer *= n
	}
	if outer == 0 || shape[axis] == 0 {
		return y
	}
	stride, at := len(y.Bytes())/outer, 0
	for _, p := range parts {
		size := len(p.Bytes()) / outer
		for i := range outer {
			copy(y.Bytes()[i*stride+at:i*stride+at+size], p.Bytes()[i*size:(i+1)*size])
		}
		at += size
	}
	return y
}
