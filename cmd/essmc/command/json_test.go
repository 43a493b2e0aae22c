package command

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// decoded runs the command, which must succeed unless code is set, and decodes its object.
func decoded(t *testing.T, code int, args ...string) map[string]any {
	t.Helper()
	got, out, errs := essmc(args...)
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); got != code || err != nil {
		t.Fatalf("essmc %s: exit code %d, expected %d, %v: %s%s", strings.Join(args, " "), got, code, err, out, errs)
	}
	return v
}

// keyed follows keys and indices to a value.
func keyed(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, k := range path {
		switch k := k.(type) {
		case string:
			m, _ := v.(map[string]any)
			var ok bool
			if v, ok = m[k]; !ok {
				t.Fatalf("no key %q in %v", k, m)
			}
		case int:
			v = v.([]any)[k]
		}
	}
	return v
}

// TestJSONObjects checks the objects of --json: their numbers are those of the files.
func TestJSONObjects(t *testing.T) {
	fixtures(t)
	must(t, "run", "tokens", "-i", "tokens.npy", "-o", "y.npy")
	want := tensor.Data[float32](read(t, "y.npy"))
	r := decoded(t, 0, "run", "tokens", "-i", "tokens.npy", "--json", "--top", "2")
	data := keyed(t, r, "outputs", 0, "data").([]any)
	if len(data) != len(want) || keyed(t, r, "device") != "cpu" || len(keyed(t, r, "outputs", 0, "shape").([]any)) != 2 {
		t.Fatalf("run: found %v", r)
	}
	for i, x := range data {
		if float32(x.(float64)) != want[i] {
			t.Errorf("run: element %d is %v, expected %v", i, x, want[i])
		}
	}
	if top := keyed(t, r, "outputs", 0, "top", 1).([]any); len(top) != 2 || keyed(t, top, 0, "name") == "" {
		t.Errorf("run: top classes %v", top)
	}
	r = decoded(t, 0, "run", "tokens", "-i", "tokens.npy", "--json", "-o", "z.npy")
	if keyed(t, r, "outputs", 0, "file") != "z.npy" || keyed(t, r, "outputs", 0).(map[string]any)["data"] != nil {
		t.Errorf("run with a file: found %v", r)
	}

	r = decoded(t, 0, "verify", "tokens", "-i", "tokens.npy", "-e", "y.npy", "--json")
	if keyed(t, r, "ok") != true || keyed(t, r, "outputs", 0, "error") != 0.0 {
		t.Errorf("verify: found %v", r)
	}
	write(t, "other.npy", read(t, "y.npy"))
	x := read(t, "other.npy")
	tensor.Data[float32](x)[3] = float32(math.Inf(1))
	write(t, "other.npy", x)
	r = decoded(t, 1, "verify", "tokens", "-i", "tokens.npy", "-e", "other.npy", "--json")
	if keyed(t, r, "ok") != false || keyed(t, r, "outputs", 0, "expected") != "Infinity" || keyed(t, r, "outputs", 0, "at", 1) != 3.0 {
		t.Errorf("verify: found %v", r)
	}

	r = decoded(t, 0, "compare", "tokens", "tokens.essm", "-i", "tokens.npy", "--device", "ref", "--json")
	if keyed(t, r, "a", "device") != "ref" || keyed(t, r, "b", "device") != "ref" || keyed(t, r, "values", 0, "kind") != "output" {
		t.Errorf("compare: found %v", r)
	}
	r = decoded(t, 0, "compare", "tokens", "-i", "tokens.npy", "--device", "ref", "--device-b", "cpu", "--json")
	if keyed(t, r, "a", "device") != "ref" || keyed(t, r, "b", "device") != "cpu" || keyed(t, r, "ok") != true {
		t.Errorf("compare: found %v", r)
	}

	r = decoded(t, 0, "explain", "waves", "--shape", "1x64", "--json")
	if keyed(t, r, "shape") != "1x64" || keyed(t, r, "forms", 0, "form") == "" || keyed(t, r, "passes", 0, "pass") == "" {
		t.Errorf("explain: found %v", r)
	}
	r = decoded(t, 0, "devices", "--json")
	if keyed(t, r, "devices", 0, "device") != "cpu" || keyed(t, r, "devices", 0, "runs_models") != true {
		t.Errorf("devices: found %v", r)
	}

	var plain, objects strings.Builder
	const steps = "0.5,1,2\n-1,0,1\n0,0,0\n"
	if code := Main([]string{"stream", "waves"}, strings.NewReader(steps), &plain, &plain); code != 0 {
		t.Fatal(plain.String())
	}
	if code := Main([]string{"stream", "waves", "--json"}, strings.NewReader(steps), &objects, &objects); code != 0 {
		t.Fatal(objects.String())
	}
	var lines []string
	for line := range strings.Lines(objects.String()) {
		var s struct {
			Output string
			Step   int
			Values []json.Number
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.Output != "output" || s.Step != len(lines) {
			t.Errorf("stream: %v: %s", err, line)
		}
		var row []string
		for _, n := range s.Values {
			row = append(row, n.String())
		}
		lines = append(lines, strings.Join(row, ","))
	}
	if got := strings.Join(lines, "\n") + "\n"; got != plain.String() {
		t.Errorf("stream: found %s, expected %s", got, plain.String())
	}
	refused(t, 2, []string{"stream", "waves", "--json", "--format", "f32"}, "expected --format csv")
}
