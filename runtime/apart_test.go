package runtime

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// TestApart checks that tensors to write to share their first byte with no other one.
func TestApart(t *testing.T) {
	new := func(n int) *tensor.Tensor { return tensor.New(tensor.Float32, n) }
	x, y, z, none := new(2), new(2), new(2), new(0)
	sg := &signature{inputs: []Port{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		outputs: []Port{{Name: "d"}, {Name: "e"}, {Name: "f"}}}
	for _, c := range []struct {
		in, out []tensor.Datum
		want    string
	}{
		{[]tensor.Datum{x, x, nil}, []tensor.Datum{y, z, nil}, ""},
		{[]tensor.Datum{none, none, none}, []tensor.Datum{none, none, none}, ""},
		{[]tensor.Datum{x, x, x}, []tensor.Datum{nil, nil, nil}, ""},
		{[]tensor.Datum{x, y, y}, []tensor.Datum{z, nil, y}, `output "f": is also input "b"`},
		{[]tensor.Datum{x, nil, nil}, []tensor.Datum{nil, y, y}, `output "f": is also output "e"`},
		{[]tensor.Datum{x, y, nil}, []tensor.Datum{z, y, z}, `output "e": is also input "b"`},
		{[]tensor.Datum{x, y, nil}, []tensor.Datum{z, z, y}, `output "e": is also output "d"`},
	} {
		err := sg.apart(c.in, c.out, &charges{})
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, %v: expected %q, found %v", c.in, c.out, c.want, err)
		}
	}
}
