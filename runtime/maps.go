package runtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Maps returns scores as maps, one for each row, for an output that the model's file has as maps (ZipMap of
// ai.onnx.ml). Such an output is a float32 tensor (N,C) here, or (C) for one row. K is the type of the keys in the
// file: class labels as int64 or string. Where a key occurs twice, its last column counts. The error names the output.
func Maps[K int64 | string](m *Model, output string, scores tensor.Datum) ([]map[K]float32, error) {
	fail := func(format string, args ...any) ([]map[K]float32, error) {
		return nil, fmt.Errorf("output %q: "+format, append([]any{output}, args...)...)
	}
	text, ok := m.graph.Meta[ir.MetaKeys+output]
	if !ok {
		return fail("it does not have maps in the model")
	}
	var keys []K
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		var zero K
		return fail("the keys of its maps are not of type %T: %v", zero, err)
	}
	x, ok := scores.(*tensor.Tensor)
	if !ok || x == nil || x.DType() != tensor.Float32 || x.Rank() != 1 && x.Rank() != 2 || x.Dim(-1) != len(keys) {
		return fail("expected float32 scores with a column for each of %d keys, found %s", len(keys),
			tensor.Describe(scores))
	}
	rows := 1
	if x.Rank() == 2 {
		rows = x.Dim(0)
	}
	var out []map[K]float32
	v := tensor.Data[float32](x)
	for range rows {
		row := map[K]float32{}
		for k, key := range keys {
			row[key] = v[k]
		}
		out, v = append(out, row), v[len(keys):]
	}
	return out, nil
}

// FromMaps returns maps as the tensor of an input that the model's file has as a map (DictVectorizer and CastMap of
// ai.onnx.ml), with one row per map. Unknown keys are ignored, and values of missing keys are zero or empty. K is
// the type of the keys in the file, and V of the values. If the input has no keys of its own (a dense CastMap), a
// row has the values in the order of their keys, and all maps must have the same number. The error names the input.
func FromMaps[K int64 | string, V float32 | float64 | int64 | string](m *Model, input string, rows ...map[K]V) (
	tensor.Datum, error) {
	fail := func(format string, args ...any) (tensor.Datum, error) {
		return nil, fmt.Errorf("input %q: "+format, append([]any{input}, args...)...)
	}
	i, ok := m.inputIndex[input]
	if !ok || m.inputs[i].Keys == "" {
		return fail("it does not have maps in the model")
	}
	var keys []K
	var k K
	var v V
	if err := json.Unmarshal([]byte(m.inputs[i].Keys), &keys); err != nil {
		return fail("the keys of its maps are not of type %T: %v", k, err)
	}
	if len(rows) == 0 {
		return fail("expected one map or more")
	}
	dense := len(keys) == 0
	columns := len(keys)
	if dense {
		columns = len(rows[0])
	}
	var values []V
	for r, row := range rows {
		if dense {
			if keys = slices.Sorted(maps.Keys(row)); len(keys) != columns {
				return fail("map %d has %d values, map 0 has %d", r, len(keys), columns)
			}
		}
		for _, k := range keys {
			values = append(values, row[k])
		}
	}
	t, err := rowsOf(values, len(rows), columns)
	if err != nil {
		return fail("%v", err)
	}
	if want, ok := m.inputs[i].Type.(*ir.TensorType); !ok || want.Elem != t.DType() {
		return fail("the values of its maps are not of type %T: expected %v", v, m.inputs[i].Type)
	}
	return t, nil
}

func rowsOf[V float32 | float64 | int64 | string](values []V, rows, columns int) (*tensor.Tensor, error) {
	switch v := any(values).(type) {
	case []float32:
		return tensor.FromSlice(v, rows, columns), nil
	case []float64:
		return tensor.FromSlice(v, rows, columns), nil
	case []int64:
		return tensor.FromSlice(v, rows, columns), nil
	case []string:
		return tensor.FromStrings(v, rows, columns), nil
	}
	return nil, fmt.Errorf("values of type %T", values)
}
