package command

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// TestMapInput runs a pipeline of scikit-learn's DictVectorizer and LogisticRegression, as skl2onnx writes it, on maps in
// a file and in arguments, and compares with ONNX Runtime's answers for one map after the other.
func TestMapInput(t *testing.T) {
	fixtures(t)
	model := home("testdata/dict.onnx")
	if err := os.WriteFile("rows.json", []byte(`[
		{"age": 0.8216181435011584, "height": -1.303157231604361, "weight": 0.4463745723640113, "shoe": 3.0},
		{"height": 0.36457239618607573, "weight": 0.02842224131579679},
		{"age": -0.7364540870016669, "height": -0.48211931267997826, "weight": 0.03972210748165899},
		{"age": -0.7819084623568421, "height": 0.008142180518343508, "weight": 1.2940638143982073}]`), 0o666); err != nil {
		t.Fatal(err)
	}
	want := []float32{0.07839182019233704, 0.9216082096099854, 0.5171586275100708, 0.4828413426876068,
		0.8947688341140747, 0.1052311360836029, 0.6364903450012207, 0.3635096549987793}
	probability := func(args ...string) *tensor.Tensor {
		t.Helper()
		must(t, append([]string{"run", model, "--force", "--output", "output_probability=p.npy", "--output",
			"output_label=l.npy"}, args...)...)
		return read(t, "p.npy")
	}
	for _, spec := range []string{"rows.json", "x=rows.json"} {
		got := probability("--input", spec)
		if d := largest(t, got, tensor.FromSlice(want, 4, 2)); !(d <= 1e-6) {
			t.Errorf("%s: found %s, %v apart from ONNX Runtime", spec, got, d)
		}
	}
	if got := read(t, "l.npy"); strings.Join(got.Strings(), " ") != "yes no no no" {
		t.Errorf("labels %s", got)
	}
	got := probability("--input", `{"weight": 0.02842224131579679, "height": 0.36457239618607573}`)
	if v := tensor.Data[float32](got); math.Abs(float64(v[0]-want[2])) > 1e-6 {
		t.Errorf("found %v, expected %v", v, want[2:4])
	}
	refused(t, 1, []string{"run", model, "--input", `{"Age":1}`}, `the model knows none of the keys "Age"`, `"height"`)
	refused(t, 1, []string{"run", model}, `"x" is missing`, `x={"age":1}'`)
	if text := must(t, "inspect", model); !strings.Contains(text, "maps of age, height, weight") {
		t.Errorf("inspect says\n%s", text)
	}
}
