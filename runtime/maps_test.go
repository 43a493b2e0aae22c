package runtime_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// TestMaps checks the maps of scores with both types of keys, and the errors for outputs that have none.
func TestMaps(t *testing.T) {
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>
		g (float[N,2] x) => (float[N,2] y, float[N,2] z) { y = Identity (x) z = Neg (x) }`), "maps", ops.Default,
		irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.Meta = map[string]string{ir.MetaKeys + "y": "[3,7]", ir.MetaKeys + "z": `["no","yes"]`}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	defer s.Close()
	out, err := s.Run(context.Background(), map[string]tensor.Datum{"x": tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	y, err := runtime.Maps[int64](m, "y", out["y"])
	if err != nil || len(y) != 2 || !maps.Equal(y[1], map[int64]float32{3: 3, 7: 4}) {
		t.Errorf("%v, %v", y, err)
	}
	z, err := runtime.Maps[string](m, "z", out["z"])
	if err != nil || len(z) != 2 || !maps.Equal(z[0], map[string]float32{"no": -1, "yes": -2}) {
		t.Errorf("%v, %v", z, err)
	}
	row, err := runtime.Maps[string](m, "z", tensor.FromSlice([]float32{5, 6}, 2))
	if err != nil || len(row) != 1 || !maps.Equal(row[0], map[string]float32{"no": 5, "yes": 6}) {
		t.Errorf("%v, %v", row, err)
	}
	for want, f := range map[string]func() error{
		`output "y": the keys of its maps are not of type string`: func() error {
			_, err := runtime.Maps[string](m, "y", out["y"])
			return err
		},
		`output "x": it does not have maps in the model`: func() error { _, err := runtime.Maps[int64](m, "x", out["y"]); return err },
		`output "y": expected float32 scores with a column for each of 2 keys`: func() error {
			_, err := runtime.Maps[int64](m, "y", tensor.FromSlice([]float32{1, 2, 3}, 1, 3))
			return err
		},
		`output "z": expected float32 scores`: func() error { _, err := runtime.Maps[string](m, "z", nil); return err },
	} {
		if err := f(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// TestFromMaps checks the tensors of maps with both types of keys, and the errors.
func TestFromMaps(t *testing.T) {
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>
		g (float[N,2] x, int64[N,2] y, string[N,?] z) => (float[N,2] u, int64[N,2] v, string[N,?] w) {
			u = Neg (x) v = Neg (y) w = Identity (z) }`), "maps", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.Meta = map[string]string{ir.MetaKeys + "x": `["b","a"]`, ir.MetaKeys + "y": "[3,-7]", ir.MetaKeys + "z": "[]"}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	check := func(got tensor.Datum, err error, want *tensor.Tensor) {
		t.Helper()
		if err != nil || !tensor.Equal(got.(*tensor.Tensor), want) {
			t.Errorf("found %s, %v, expected %s", got, err, want)
		}
	}
	x, err := runtime.FromMaps(m, "x", map[string]float32{"a": 1, "other": 5}, map[string]float32{"b": 2})
	check(x, err, tensor.FromSlice([]float32{0, 1, 2, 0}, 2, 2))
	y, err := runtime.FromMaps(m, "y", map[int64]int64{-7: 1 << 60})
	check(y, err, tensor.FromSlice([]int64{0, 1 << 60}, 1, 2))
	z, err := runtime.FromMaps(m, "z", map[int64]string{9: "c", -1: "a", 2: "b"})
	check(z, err, tensor.FromStrings([]string{"a", "b", "c"}, 1, 3))
	for want, f := range map[string]func() error{
		`input "x": the keys of its maps are not of type int64`: func() error {
			_, err := runtime.FromMaps(m, "x", map[int64]float32{})
			return err
		},
		`input "x": the values of its maps are not of type string`: func() error {
			_, err := runtime.FromMaps(m, "x", map[string]string{})
			return err
		},
		`input "u": it does not have maps in the model`: func() error {
			_, err := runtime.FromMaps(m, "u", map[string]float32{})
			return err
		},
		`input "x": expected one map or more`: func() error {
			_, err := runtime.FromMaps[string, float32](m, "x")
			return err
		},
		`input "z": map 1 has 1 values, map 0 has 2`: func() error {
			_, err := runtime.FromMaps(m, "z", map[int64]string{1: "a", 2: "b"}, map[int64]string{1: "a"})
			return err
		},
	} {
		if err := f(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("found %v, expected %s", err, want)
		}
	}
}
