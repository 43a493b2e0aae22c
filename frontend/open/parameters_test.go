package open_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

const parametersText = `<opset_import: ["" : 24]> g (float[N,2] x) => (float[N,2] y)
<float[2,2] "l.weight" = {1, 2, 3, 4}, float[2] "l.bias" = {5, 6}, int64[2] perm = {1, 0}>
{
  w = Transpose <perm = [1, 0]> ("l.weight") h = MatMul (x, w) z = Add (h, "l.bias") s = Shape (z) y = Reshape (z, s)
}`

// TestParameters gives patterns to each kind of model.
func TestParameters(t *testing.T) {
	g, err := irtext.Parse([]byte(parametersText), "g", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var file, planned bytes.Buffer
	if err := errors.Join(onnx.Write(&file, g, onnx.WriteOptions{}), plan.Write(&planned, g)); err != nil {
		t.Fatal(err)
	}
	names := func(g *ir.Graph) string {
		var list []string
		for _, v := range g.Parameters {
			list = append(list, v.Name)
		}
		return strings.Join(list, " ")
	}
	for _, c := range []struct {
		kind     string
		patterns []string
		want     string // names, or the error
	}{
		{"text", []string{"*"}, "l.weight l.bias"},
		{"text", []string{"*.bias"}, "l.bias"},
		{"onnx", []string{"l.*"}, "l.weight l.bias"},
		{"onnx", nil, ""},
		{"onnx", []string{"m.*"}, `m: option Parameters: "m.*": expected a name or a pattern of initializers, found none that match; near names: "l.bias", "l.weight"`},
		{"plan", []string{"*"}, "m: option Parameters: a plan has the parameters that it was made with"},
		{"memory", []string{"*"}, "m: option Parameters: a graph in memory has the parameters"},
	} {
		o := open.Options{Parameters: c.patterns}
		var m *open.Model
		switch c.kind {
		case "memory":
			m, err = open.Graph(g, "m", o)
		default:
			m, err = open.Bytes(map[string][]byte{"text": []byte(parametersText), "onnx": file.Bytes(),
				"plan": planned.Bytes()}[c.kind], "m", o)
		}
		got := ""
		if err != nil {
			got = err.Error()
			var wrong *open.OptionError
			if !errors.As(err, &wrong) || wrong.Option != "Parameters" || !errors.Is(err, runtime.ErrOption) {
				t.Errorf("%s %q: not an OptionError: %v", c.kind, c.patterns, err)
			}
		} else {
			compiled, err := m.Graph() // no pass loses one
			if err != nil {
				t.Errorf("%s %q: %v", c.kind, c.patterns, err)
				continue
			}
			got = names(compiled)
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s %q: %s, expected %s", c.kind, c.patterns, got, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := open.File(path, open.Options{Parameters: []string{"*.weight"}})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := m.Graph()
	if err != nil || names(compiled) != "l.weight" {
		t.Errorf("a file: %v, %v", compiled, err)
	}
}
