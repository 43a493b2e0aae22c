package ir

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomDim makes an expression, and the function that it should equal, so that the algebra is compared with
// arithmetic.
func randomDim(r *rand.Rand, depth int) (Dim, func(map[string]int64) int64) {
	if depth == 0 || r.IntN(4) == 0 {
		if r.IntN(2) == 0 {
			n := r.Int64N(9) - 3
			return Const(n), func(map[string]int64) int64 { return n }
		}
		s := []string{"B", "L", "K"}[r.IntN(3)]
		return Sym(s), func(m map[string]int64) int64 { return m[s] }
	}
	a, fa := randomDim(r, depth-1)
	b, fb := randomDim(r, depth-1)
	switch r.IntN(6) {
	case 0:
		return a.Add(b), func(m map[string]int64) int64 { return fa(m) + fb(m) }
	case 1:
		return a.Sub(b), func(m map[string]int64) int64 { return fa(m) - fb(m) }
	case 2:
		return a.Mul(b), func(m map[string]int64) int64 { return fa(m) * fb(m) }
	case 3:
		return a.Max(b), func(m map[string]int64) int64 { return max(fa(m), fb(m)) }
	case 4:
		return a.Min(b), func(m map[string]int64) int64 { return min(fa(m), fb(m)) }
	}
	n := r.Int64N(5) + 1
	return a.FloorDiv(Const(n)), func(m map[string]int64) int64 { return int64(math.Floor(float64(fa(m)) / float64(n))) }
}

func TestDimAgainstArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		d, f := randomDim(r, 3)
		bind := map[string]int64{"B": r.Int64N(9), "L": r.Int64N(30), "K": r.Int64N(5)}
		got, err := d.Eval(bind)
		if err != nil || got != f(bind) {
			t.Fatalf("%v at %v is %d (%v), expected %d", d, bind, got, err, f(bind))
		}
		with := map[string]Dim{"B": Const(bind["B"]), "L": Const(bind["L"]), "K": Const(bind["K"])}
		if n, ok := d.Subst(with).Known(); !ok || n != got {
			t.Fatalf("%v with %v is %v, expected %d", d, bind, d.Subst(with), got)
		}
		if n, ok := d.Known(); ok && n != got || ok && len(d.Symbols()) > 0 {
			t.Fatalf("%v is known as %d and is %d", d, n, got)
		}
		back, err := ParseDim(d.String())
		if err != nil || !back.Equal(d) || back.String() != d.String() {
			t.Fatalf("%v reads back as %v, %v", d, back, err)
		}
		for s := range bind {
			if !slices.Contains(d.Symbols(), s) {
				bind[s] += 7
			}
		}
		if again, err := d.Eval(bind); err != nil || again != got {
			t.Fatalf("%v depends on more than %v", d, d.Symbols())
		}
	}
}

// The normal form makes equal expressions equal, however they came about.
func TestDimNormalForm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		a, _ := randomDim(r, 2)
		b, _ := randomDim(r, 2)
		c, _ := randomDim(r, 2)
		for law, p := range map[string][2]Dim{
			"a+b = b+a":             {a.Add(b), b.Add(a)},
			"(a+b)+c = a+(b+c)":     {a.Add(b).Add(c), a.Add(b.Add(c))},
			"a*b = b*a":             {a.Mul(b), b.Mul(a)},
			"(a*b)*c = a*(b*c)":     {a.Mul(b).Mul(c), a.Mul(b.Mul(c))},
			"a*(b+c) = a*b+a*c":     {a.Mul(b.Add(c)), a.Mul(b).Add(a.Mul(c))},
			"a-a = 0":               {a.Sub(a), Const(0)},
			"a+b-b = a":             {a.Add(b).Sub(b), a},
			"max(a,b) = max(b,a)":   {a.Max(b), b.Max(a)},
			"min(a,a) = a":          {a.Min(a), a},
			"max(a,a+2) = a+2":      {a.Max(a.Add(Const(2))), a.Add(Const(2))},
			"floordiv(6*a,3) = 2*a": {a.Mul(Const(6)).FloorDiv(Const(3)), a.Mul(Const(2))},
			"floordiv(a,1) = a":     {a.FloorDiv(Const(1)), a},
		} {
			if !p[0].Equal(p[1]) {
				t.Fatalf("%s fails for a = %v, b = %v, c = %v: %v and %v", law, a, b, c, p[0], p[1])
			}
		}
	}
}

func TestDimString(t *testing.T) {
	for in, want := range map[string]string{
		"L": "L", "0": "0", "2*L + 1": "2*L+1", "1+L+L": "2*L+1", "-L+5": "-L+5", "L*B*2": "2*B*L", "L-L": "0",
		"?": "?", "max(?,1)": "?",
		"floordiv(L+1,2)": "floordiv(L+1,2)", "floordiv(7,2)": "3", "max(3,L,": "", "floordiv(B*L,L)": "B",
		"a.b/c:0#1": "a.b/c:0#1", "Länge": "Länge",
		"": "", "L+": "", "+": "", "2L": "", "L L": "LL", "max(1)": "", "floor(1,2)": "", "(L)": "",
		"9223372036854775808": "", "min(L,L+1)": "L",
		"9223372036854775807*2": "?", "9223372036854775807+1": "?", "max(9223372036854775807,-5)": "9223372036854775807",
	} {
		d, err := ParseDim(in)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q was read as %v", in, d)
		case want != "" && (err != nil || d.String() != want):
			t.Errorf("%q is %v (%v), expected %s", in, d, err, want)
		}
	}
}

func TestDimUnknown(t *testing.T) {
	u, l := Unknown, Sym("L")
	for _, d := range []Dim{u.Add(l), l.Sub(u), u.Mul(Const(0)), u.FloorDiv(l), l.Max(u), u.Min(u),
		u.Subst(map[string]Dim{"L": l})} {
		if !d.IsUnknown() {
			t.Errorf("%v should be unknown", d)
		}
	}
	if u.Equal(u) {
		t.Error("unknown dimensions are not known to be equal")
	}
	if _, err := u.Eval(nil); err == nil {
		t.Error("an unknown dimension has a value")
	}
}

func TestDimEvalErrors(t *testing.T) {
	big := map[string]int64{"L": math.MaxInt64, "Z": 0}
	for _, s := range []string{"L*L", "L+1", "M", "floordiv(L,Z)", "max(M,1)", "min(1,M)"} {
		d, err := ParseDim(s)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := d.Eval(big); err == nil {
			t.Errorf("%s is %d", s, n)
		}
	}
}

// A short text must not cost much.
func TestParseDimBounds(t *testing.T) {
	var sum, product strings.Builder
	for i := range 300 {
		sum.WriteString("v" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "+")
		product.WriteString("v" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "*")
	}
	start := time.Now()
	for _, s := range []string{sum.String() + "1", product.String() + "1", strings.Repeat("a*", 2000) + "a",
		strings.Repeat("max(1,", 20) + "1" + strings.Repeat(")", 20), strings.Repeat("1", 5000)} {
		if d, err := ParseDim(s); err == nil {
			t.Errorf("%s… was read as %v", s[:20], d)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("refusing took %v", took)
	}
}

func FuzzParseDim(f *testing.F) {
	for _, s := range []string{"2*L+1", "floordiv(L-1,2)*3+max(B,1)", "?", "min(a,-b)", "9223372036854775807+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDim(s)
		if err != nil {
			return
		}
		if back, err := ParseDim(d.String()); err != nil || back.String() != d.String() {
			t.Errorf("%q is %v, which reads as %v, %v", s, d, back, err)
		}
		_, _ = d.Eval(map[string]int64{"L": 3})
		d.Subst(map[string]Dim{"L": Const(0), "B": Sym("L")})
	})
}

func TestSumOfMany(t *testing.T) {
	sum := Const(0)
	for _, c := range "abcdefghijklmnop" {
		for _, d := range "abcdefghijklmnop" {
			sum = sum.Sum(Sym(string(c) + string(d)))
		}
	}
	if len(sum.Symbols()) != 256 {
		t.Errorf("256 symbols: %v", sum)
	}
	if sum = sum.Sum(Sym("M")); !sum.IsUnknown() {
		t.Errorf("one more: %d symbols", len(sum.Symbols()))
	}
}
