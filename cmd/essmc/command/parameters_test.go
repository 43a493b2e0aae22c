package command

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestParametersFlag compiles a model with parameters, and looks at it with the commands that show them.
func TestParametersFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	const text = `<opset_import: ["" : 24]> g (float[N,2] x) => (float[N,2] y, float[2] next)
<float[2,2] "l.weight" = {1, 2, 3, 4}, parameter float[2] "l.bias" = {5, 6}, update "l.bias" = next>
{
  h = MatMul (x, "l.weight") y = Add (h, "l.bias") next = Neg ("l.bias")
}`
	if err := os.WriteFile("m.txt", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	must(t, "compile", "m.txt", "-o", "m.essm", "--parameters", "*.weight")
	for _, args := range [][]string{{"inspect", "m.essm"}, {"explain", "m.txt", "--parameters", "*"}, {"explain", "m.essm"}} {
		out := strings.Join(strings.Fields(must(t, args...)), " ")
		for _, want := range []string{"Replaceable parameters", "l.bias float[2]", "updated by next", "l.weight float[2,2]"} {
			if !strings.Contains(out, want) {
				t.Errorf("essmc %s: no %q in\n%s", strings.Join(args, " "), want, out)
			}
		}
	}
	var r inspection
	if err := json.Unmarshal([]byte(must(t, "inspect", "m.essm", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	want := []parameterReport{{"l.weight", "float[2,2]", ""}, {"l.bias", "float[2]", "next"}}
	if len(r.Replaceable) != 2 || r.Replaceable[0] != want[0] || r.Replaceable[1] != want[1] {
		t.Errorf("inspect --json has %+v, expected %+v", r.Replaceable, want)
	}
	if r.Parameters != 6 || r.Memory.Weights != 24 {
		t.Errorf("%d numbers, %d bytes of weights; expected 6 and 24", r.Parameters, r.Memory.Weights)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"compile", "m.txt", "-o", "x.essm", "--parameters", "*.wieght"},
			`m.txt: --parameters: "*.wieght": expected a name or a pattern of constants, found none that match; near names: "l.weight"`},
		{[]string{"explain", "m.essm", "--parameters", "*"},
			"m.essm: --parameters: the parameters of a plan are fixed; use essmc compile --parameters on the model"},
	} {
		code, _, errs := essmc(c.args...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("essmc %s: exit code %d, %s; expected %s", strings.Join(c.args, " "), code, errs, c.want)
		}
	}
}
