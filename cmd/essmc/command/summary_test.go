package command

import (
	"os"
	"strings"
	"testing"
)

// TestProbabilities checks that probabilities are shown as they are, without softmax.
func TestProbabilities(t *testing.T) {
	t.Chdir(t.TempDir())
	const head = "<ir_version: 8, opset_import: [\"\": 17]>\ng (float[B,3] x) => (float[B,3] y) {\n"
	for _, c := range []struct{ body, input, title, share string }{
		{"y = Softmax (x)", "[[0,0,1.0986122886681098]]", "probability", "60.0%"},
		{"z = Softmax (x)\ny = Identity (z)", "[[0,0,1.0986122886681098]]", "probability", "60.0%"},
		{"y = Sigmoid (x)", "[[0,-5,-5]]", "probability", "50.0%"},
		{"y = Neg (x)", "[[-0.2,-0.2,-0.6]]", "probability", "60.0%"},
		{"y = Neg (x)", "[[-0.4,1.5e-8,-0.6]]", "probability", "  0.0%"},
		{"y = Neg (x)", "[[-0.4,1e-4,-0.6]]", "softmax", "42.2%"},
		{"y = Neg (x)", "[[0,0,-1.0986122886681098]]", "softmax", "60.0%"},
		// the softmax of logarithms gives probabilities
		{"y = LogSoftmax (x)", "[[0,0,1.0986122886681098]]", "softmax", "60.0%"},
		{"y = Neg (x)", "[[0.2,-0.4,-0.8]]", "softmax", "49.1%"},
	} {
		if err := os.WriteFile("m.txt", []byte(head+c.body+"\n}\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if out := must(t, "run", "m.txt", "-i", "x="+c.input); !strings.Contains(out, c.title) ||
			!strings.Contains(out, c.share) {
			t.Errorf("%s of %s: expected %s and %s, found\n%s", c.body, c.input, c.title, c.share, out)
		}
	}
}

// TestUnchangedPrecision checks that a precision without effect is reported.
func TestUnchangedPrecision(t *testing.T) {
	fixtures(t)
	for _, precision := range []string{"bf16", "int8"} {
		for _, args := range [][]string{
			{"run", "waves", "-i", "waves.npy", "--precision", precision},
			{"run", "waves.essm", "-i", "waves.npy", "--precision", precision},
			{"stream", "waves", "--precision", precision},
			{"compare", "waves", "-i", "waves.npy", "--precision-a", precision},
			{"bench", "waves", "--shape", "1x16", "--repeat", "2", "--precision", precision},
		} {
			code, _, stderr := essmc(args...)
			if code != 0 || strings.Count(stderr, "--precision "+precision+
				" changes nothing: 0 of 10 dense products: all below 32 × 32") != 1 {
				t.Errorf("%q: %d, %s", args, code, stderr)
			}
		}
	}
	must(t, "init", "image", "-o", "wide", "--set", "d_model=64", "--set", "n_layers=1")
	if code, _, stderr := essmc("bench", "wide", "--shape", "1x16", "--repeat", "2", "--precision",
		"int8"); code != 0 || stderr != "" {
		t.Errorf("a model with products of 64 × 64: %d, %s", code, stderr)
	}
	if err := os.WriteFile("m.txt",
		[]byte("<ir_version: 8, opset_import: [\"\": 17]>\ng (float[3] x) => (float[3] y) {\n y = Neg (x)\n}\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := essmc("run", "m.txt", "-i", "[1,2,3]", "--precision", "int8")
	if !strings.Contains(stderr, "--precision int8 changes nothing: the model has no dense products") {
		t.Errorf("a model without products: %s", stderr)
	}
}
