package patterns

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// plain is the definition of a match.
func plain(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return plain(pattern[1:], name) || name != "" && plain(pattern, name[1:])
	}
	return name != "" && (pattern[0] == '?' || pattern[0] == name[0]) && plain(pattern[1:], name[1:])
}

func TestMatch(t *testing.T) {
	text := func(r *rand.Rand, letters string) string {
		b := make([]byte, r.IntN(7))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	r := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range 100_000 {
		p, n := text(r, "ab*?*"), text(r, "ab")
		if got, want := match(p, n), plain(p, n); got != want {
			t.Fatalf("%q, %q: %v, expected %v", p, n, got, want)
		} else if got {
			matched++
		}
	}
	if matched < 10_000 {
		t.Errorf("only %d of 100000 pairs match", matched)
	}
	if !match("*.weight", "/layers.0/attn.weight") {
		t.Error("* does not match a slash")
	}
	long := strings.Repeat("a", 1<<12)
	if match(strings.Repeat("*a", 1<<8)+"b", long) { // exponential, if done by the definition
		t.Error("matches a name without b")
	}
}

func TestSelect(t *testing.T) {
	if s := New(nil); s.Select("a", tensor.Float32) || s.Err("constants") != nil {
		t.Error("no patterns select something")
	}
	s := New([]string{"*.weight", "axes", "a*b", "node"})
	for name, want := range map[string]bool{"w": false, "l.weight": true, "a*b": true, "axb": true, "": false} {
		if got := s.Select(name, tensor.BFloat16); got != want {
			t.Errorf("%q: %v, expected %v", name, got, want)
		}
	}
	if s.Select("ids.weight", tensor.Int64) || !s.Select("c.weight", tensor.Complex64) {
		t.Error("a pattern selects integers, or no complex numbers")
	}
	if err := s.Err("constants"); err == nil || !strings.Contains(err.Error(), `"axes"`) {
		t.Errorf("error %v, expected one about axes", err)
	}
	if !s.Select("axes", tensor.Int64) {
		t.Error("integers are not selected by their name")
	}
	if s.SelectNamed("x.weight", tensor.Float32) || !s.SelectNamed("node", tensor.Float32) {
		t.Error("SelectNamed takes patterns, or no names")
	}
	if err := s.Err("constants"); err != nil {
		t.Error(err)
	}
}

func TestErr(t *testing.T) {
	names := map[string]tensor.DType{"encoder.0.weight": tensor.Float32, "encoder.0.bias": tensor.Float32,
		"shape": tensor.Int64}
	for pattern, want := range map[string]string{
		"encodr.0.weight": `"encodr.0.weight": expected a name or a pattern of constants, found none that match; near names: "encoder.0.weight"`,
		"decoder.*":       "near names: ",
		"sh*":             `"sh*": expected floating point numbers, found only constants of other types, such as "shape" (int64); name them exactly`,
		"":                `"": expected a name or a pattern of constants, found an empty one`,
	} {
		s := New([]string{"*.bias", pattern})
		for _, name := range []string{"encoder.0.weight", "encoder.0.bias", "shape"} {
			s.Select(name, names[name])
		}
		err := s.Err("constants")
		var e *Error
		if !errors.As(err, &e) || e.Pattern != pattern || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected %s", pattern, err, want)
		}
	}
	s := New([]string{"x"})
	if err := s.Err("constants"); err == nil || err.Error() != `"x": expected a name or a pattern of constants, found none` {
		t.Errorf("without names: %v", err)
	}
}
