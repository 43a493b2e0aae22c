package scalar

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestParse reads what String writes.
func TestParse(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 3000 {
		e := random(r, 1+r.IntN(40), Ops())
		got, err := Parse(e.String())
		if err != nil || got != e {
			t.Fatalf("%v: found %v, %v", e, got, err)
		}
	}
	x, y := Input(0), Input(255)
	for _, e := range []Expr{Const(-2), Neg(Const(2)), Neg(Const(-2)), Const(math.Inf(1)), Const(math.Inf(-1)), Const(math.NaN()),
		Const(math.Copysign(0, -1)), Const(5e-324), Const(1e300), Neg(Neg(x)), Sub(Neg(x), Const(-3)), Mul(Const(-2), Const(-3)),
		Sub(x, Sub(x, y)), Div(x, Div(y, x)), Less(Less(x, y), Less(y, x)), Add(x, Const(math.Inf(1))),
		Neg(Const(math.Inf(1))), Div(Add(x, y), Add(x, y)), FMA(x, Neg(y), Const(-1e-5))} {
		if got, err := Parse(e.String()); err != nil || got != e {
			t.Errorf("%v: found %v, %v", e, got, err)
		}
	}
}

// TestParseRefuses lists texts that String never writes.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "expected an operand",
		"x0 +":                        "unexpected",
		"x0 + ":                       "expected an operand",
		"x256":                        "up to 255",
		"x00":                         "expected an operand",
		"t0":                          "no value yet",
		"t0 = x0":                     `expected "; "`,
		"t1 = x0; t1":                 "no value yet",
		"exp(x0":                      `expected ")"`,
		"exp(x0, x1)":                 `expected ")"`,
		"fma(x0, x1)":                 `expected ", "`,
		"input(x0)":                   "expected an operand",
		"sine(x0)":                    "expected an operand",
		"1.50":                        "not a number",
		"1e999":                       "not a number",
		"0x10":                        "not a number",
		"x0 < x1 < x2":                "unexpected",
		strings.Repeat("(", 600):      "nested deeper",
		strings.Repeat("x0 + ", 5000): "at most 4096",
		strings.Repeat(" ", 1<<17):    "expected at most 65536",
		"x0 x1":                       "unexpected",
		"exp(x0); x0":                 "unexpected",
		"x0 + -x1":                    "expected an operand",
	} {
		if e, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: expected an error with %q, found %v, %v", text, want, e, err)
		}
	}
}

// FuzzParse checks that any text is refused, or is read again from what String writes. Seeds are in testdata.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(e.String())
		if err != nil && strings.Contains(err.Error(), "nested deeper") {
			return // String names what is repeated only
		}
		if err != nil || again != e {
			t.Fatalf("%q is read as %v, which is read as %v, %v", text, e, again, err)
		}
	})
}
