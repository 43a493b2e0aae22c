package open

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/runtime"
)

// Weights reads the content of a model's parameters, for Set.Replace: from a model directory, a model.safetensors, or a
// state dict of torch. Names are those of the parameters. The file must have exactly the model's parameters, with their
// types and shapes; numbers of another floating point type are rounded. Tensors of which the graph's structure follows
// (ir.MetaSettings) must be there and have the content with which the model was compiled. Limits and Context of o
// apply.
//
//	content, err := open.Weights("new/model.safetensors", model, open.Options{})
//	...
//	err = model.Set().Replace(ctx, content)
func Weights(path string, m *runtime.Model, o Options) (map[string]tensor.Datum, error) {
	read := checkpoint.Options{Bytes: o.Limits.Bytes, Context: o.Context}
	found, err := checkpoint.ReadContent(path, read)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (map[string]tensor.Datum, error) { return nil, fmt.Errorf("%s: %w", path, err) }
	settings := map[string]json.RawMessage{}
	if text := m.Meta()[ir.MetaSettings]; text != "" {
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			return fail(fmt.Errorf("%s: %w", ir.MetaSettings, err))
		}
	}
	ports := m.Parameters()
	if err := sameNames(ports, settings, found); err != nil {
		return fail(err)
	}
	out := make(map[string]tensor.Datum, len(ports))
	for _, p := range ports {
		t, err := contentOf(p, found[p.Name], read)
		if err != nil {
			return fail(err)
		}
		out[p.Name] = t
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := sameSetting(name, settings[name], found); err != nil {
			return fail(err)
		}
	}
	return out, nil
}

// sameNames compares the tensors of a file with the parameters and settings of a model.
func sameNames(ports []runtime.Port, settings map[string]json.RawMessage, found map[string]*tensor.Tensor) error {
	if len(ports) == 0 {
		return errors.New("the model has no parameters; open it with Options.Parameters")
	}
	known := map[string]bool{}
	for _, p := range ports {
		known[p.Name] = true
	}
	for name := range settings {
		known[name] = true
	}
	var more []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !known[name] {
			more = append(more, name)
		}
	}
	counts := fmt.Sprintf("the model has %d parameters, the file %d tensors", len(ports), len(found))
	for _, p := range ports {
		if found[p.Name] != nil {
			continue
		}
		hint := ""
		if near := spell.Close(p.Name, more[:min(len(more), 64)]); near != "" {
			hint = "; there is " + config.Shorten(near)
		}
		return fmt.Errorf("parameter %s: is missing (%s)%s", config.Shorten(p.Name), counts, hint)
	}
	if len(more) > 0 {
		return fmt.Errorf("tensor %s: is not a parameter of the model (%s)", config.Shorten(more[0]), counts)
	}
	return nil
}

// contentOf returns a tensor as the content of a parameter.
func contentOf(p runtime.Port, t *tensor.Tensor, o checkpoint.Options) (*tensor.Tensor, error) {
	want := p.Type.(*ir.TensorType)
	shape, _ := want.Shape.Known()
	real := t.DType().IsFloat() && want.Elem.IsFloat()
	if !slices.Equal(t.Shape(), shape) || t.DType() != want.Elem && !real {
		return nil, fmt.Errorf("parameter %s: expected %v%s, found %s", config.Shorten(p.Name), want.Elem,
			tensor.ShapeString(shape), t)
	}
	if t.DType() == want.Elem {
		return t, nil
	}
	x, err := o.Convert(t, want.Elem)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", config.Shorten(p.Name), err)
	}
	if x.DType() == tensor.Float32 && t.DType() == tensor.Float64 { // others are narrower
		wide := tensor.Data[float64](t)
		for i, v := range tensor.Data[float32](x) {
			if math.IsInf(float64(v), 0) && !math.IsInf(wide[i], 0) {
				return nil, fmt.Errorf("parameter %s: element %d: expected a number in the range of float32, found %v",
					config.Shorten(p.Name), i, wide[i])
			}
		}
	}
	return x, nil
}

// sameSetting compares a tensor with what the model was compiled with: numbers, or the name of the tensor that it
// repeats. One that repeats another may be absent.
func sameSetting(name string, want json.RawMessage, found map[string]*tensor.Tensor) error {
	t := found[name]
	var of string
	if json.Unmarshal(want, &of) == nil {
		if t != nil && (found[of] == nil || !tensor.Equal(t, found[of])) {
			return fmt.Errorf("tensor %s: expected the numbers of %s, which the configuration ties it to, found others",
				config.Shorten(name), config.Shorten(of))
		}
		return nil
	}
	var numbers []int64
	if err := json.Unmarshal(want, &numbers); err != nil {
		return fmt.Errorf("%s: %s: %w", ir.MetaSettings, config.Shorten(name), err)
	}
	if t == nil {
		return fmt.Errorf("tensor %s: is missing, expected %v", config.Shorten(name), numbers)
	}
	if x, err := t.Int64s(); err != nil || !slices.Equal(x, numbers) {
		return fmt.Errorf("tensor %s: the graph follows from it: expected %v, with which the model was compiled, "+
			"found %v",
			config.Shorten(name), numbers, described(t, x))
	}
	return nil
}

func described(t *tensor.Tensor, x []int64) string {
	if x == nil || len(x) > 8 {
		return t.String()
	}
	return fmt.Sprint(x)
}
