package command

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestBenchJSON checks that the JSON of bench has the fields in its help.
func TestBenchJSON(t *testing.T) {
	fixtures(t)
	help := must(t, "bench", "--help")
	for _, typ := range []reflect.Type{reflect.TypeFor[benchmark](), reflect.TypeFor[stepShare]()} {
		for i := range typ.NumField() {
			if !typ.Field(i).IsExported() {
				continue
			}
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if key == "" || !strings.Contains(help, key) {
				t.Errorf("the help does not tell of %q", key)
			}
		}
	}
	out := must(t, "bench", "waves", "--shape", "2x100", "--repeat", "3", "--json")
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	var b benchmark
	if err := d.Decode(&b); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if b.Runs != 3 || b.Batch != 2 || b.Length != 100 || b.Threads < 1 || b.Flops <= 0 || b.Memory <= 0 ||
		len(b.Ops) == 0 {
		t.Errorf("%s", out)
	}
	if !(0 < b.MinMS && b.MinMS <= b.P10MS && b.P10MS <= b.MedianMS && b.MedianMS <= b.P90MS && b.P90MS <= b.P99MS) {
		t.Errorf("times are out of order: %s", out)
	}
	sum := 0.0
	for _, o := range b.Ops {
		if o.MS < 0 {
			t.Errorf("a step took less than no time: %s", out)
		}
		sum += o.Share
	}
	if !(math.Abs(sum-1) <= 1e-6) {
		t.Errorf("shares add up to %g: %s", sum, out)
	}
}
