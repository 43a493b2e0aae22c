package runtime

import (
	"encoding/json"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Maps returns scores as maps, one for each row, for an output that the model's file has as maps (ZipMap of ai.onnx.ml).
// Such an output is a float32 tensor (N,C) here, or (C) for one row. K is the type of the keys in the file: class labels
// as int64 or string. Where a key occurs twice, its last column counts. The error names the output.
func Maps[K int64 | string](m *Model, output string, scores tensor.Datum) ([]map[K]float32, error) {
	fail := func(format string, args ...any) ([]map[K]float32, error) {
		return nil, fmt.Errorf("output %q: "+format, append([]any{output}, args...)...)
	}
	text, ok := m.graph.Meta[ir.MetaKeys+output]
	if !ok {
		return fail("the model has no maps there")
	}
	var keys []K
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		var zero K
		return fail("the keys of its maps are not of type %T: %v", zero, err)
	}
	x, ok := scores.(*tensor.Tensor)
	if !ok || x == nil || x.DType() != tensor.Float32 || x.Rank() != 1 && x.Rank() != 2 || x.Dim(-1) != len(keys) {
		return fail("expected float32 scores with a column for each of %d keys, found %v", len(keys), scores)
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
