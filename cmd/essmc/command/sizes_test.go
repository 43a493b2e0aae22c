package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// positions is a graph with 512 learned positions, as those of BERT.
const positions = `<ir_version: 10, opset_import: ["" : 20]>
	g (int64[batch,seq] input_ids) => (float[batch,seq,4] y) {
		n = Constant <value_ints = [1,512,4]> ()
		pos = ConstantOfShape (n)
		zero = Constant <value_ints = [0]> ()
		one = Constant <value_ints = [1]> ()
		len = Shape <start = 1> (input_ids)
		some = Slice (pos, zero, len, one)
		x = Cast <to = 1> (input_ids)
		minus = Constant <value_ints = [-1]> ()
		z = Unsqueeze (x, minus)
		y = Add (z, some)
	}`

// TestSizes checks that inspect, explain and bench choose sizes that the model accepts, and say so where given ones are
// not.
func TestSizes(t *testing.T) {
	t.Chdir(t.TempDir())
	writeBytes(t, "bert.txt", []byte(positions))
	writeBytes(t, "image.onnx", pbModel(pbNode("GlobalAveragePool", "image", "y"),
		pbValue(11, "image", tensor.Float32, "n", 3, "h", "w"), pbValue(12, "y", tensor.Float32, "n", 3, 1, 1)))
	writeBytes(t, "last.txt", []byte(`<ir_version: 10, opset_import: ["" : 20]>
		g (float[n,height,width,3] image, float[n,2,seq_len] more) => (float[n,height,width,3] y) { y = Relu (image) }`))
	for _, c := range []struct{ model, want string }{
		{"bert.txt", "1x512"}, {"image.onnx", "n=1 h=224 w=224"}, {"last.txt", "n=1 seq_len=1024 height=224 width=224"},
	} {
		var r inspection
		if err := json.Unmarshal([]byte(must(t, "inspect", c.model, "--json")), &r); err != nil {
			t.Fatal(err)
		}
		if r.Memory.Shape != c.want || r.Memory.Working == 0 && c.model == "bert.txt" || r.Memory.Error != "" || len(r.Slow) > 0 {
			t.Errorf("inspect %s: found %+v, %q, expected the shape %s", c.model, r.Memory, r.Slow, c.want)
		}
		code, out, errs := essmc("bench", c.model, "--repeat", "1", "--json")
		var b benchmark
		if err := json.Unmarshal([]byte(out), &b); code != 0 || err != nil || b.Shape != c.want {
			t.Errorf("bench %s: found %q, %s, %v, expected %s", c.model, b.Shape, errs, err, c.want)
		}
		flags := " --shape " + strings.ReplaceAll(c.want, " ", " --shape ") + ","
		if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, flags) {
			t.Errorf("bench %s: found %q, expected one line with %q", c.model, errs, flags)
		}
	}
	if text := must(t, "explain", "bert.txt"); !strings.Contains(text, "for 1x512 ") {
		t.Errorf("explain: found %s", text)
	}
	for _, command := range []string{"inspect", "bench"} {
		refused(t, 1, []string{command, "bert.txt", "--shape", "2x1024"}, "bert.txt: node Add", "1024 and 512")
	}
	must(t, "bench", "bert.txt", "--shape", "batch=2", "--repeat", "1")
	// No length fits: that of the constant is 7, which is not tried.
	seven := strings.Replace(positions, "y = Add (z, some)", "seven = Constant <value_ints = [1,7,1]> () r = Reshape (z, seven) y = Add (r, some)", 1)
	writeBytes(t, "seven.txt", []byte(seven))
	if text := must(t, "inspect", "seven.txt"); !strings.Contains(text, "working  unknown: with --shape 1x1024: node Reshape") {
		t.Errorf("inspect: found %s", text)
	}
	refused(t, 1, []string{"bench", "seven.txt"}, "seven.txt: with --shape 1x1024: node Reshape")
}
