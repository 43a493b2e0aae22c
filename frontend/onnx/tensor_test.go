package onnx

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// constOf reads one initializer.
func constOf(t testing.TB, tensorFields ...[]byte) (*tensor.Tensor, error) {
	t.Helper()
	b := model(graph(msg(5, append([][]byte{str(8, "w")}, tensorFields...)...), msg(12, str(1, "w"))))
	g, _, err := read(memory(b), "m.onnx", Options{})
	if err != nil {
		return nil, err
	}
	return g.Outputs[0].Const, nil
}

// typedBytes writes the elements of x as the typed field of its element type.
func typedBytes(x *tensor.Tensor, pack bool) []byte {
	f, wire, width := typedForm(x.DType())
	var all, one []byte
	b := x.Bytes()
	for i := 0; i < len(b); i += width {
		var v uint64
		for j := range width {
			v |= uint64(b[i+j]) << (8 * j)
		}
		switch d := x.DType(); {
		case wire == 4:
			all = protowire.AppendFixed32(all, uint32(v))
			one = protowire.AppendFixed32(protowire.AppendTag(one, f, protowire.Fixed32Type), uint32(v))
		case wire == 8:
			all = protowire.AppendFixed64(all, v)
			one = protowire.AppendFixed64(protowire.AppendTag(one, f, protowire.Fixed64Type), v)
		default:
			if d == tensor.Int8 || d == tensor.Int16 || d == tensor.Int32 { // the sign is extended
				v = uint64(int64(v<<(64-8*width)) >> (64 - 8*width))
			}
			all = protowire.AppendVarint(all, v)
			one = protowire.AppendVarint(protowire.AppendTag(one, f, protowire.VarintType), v)
		}
	}
	if pack {
		return msg(f, all)
	}
	return one
}

// TestTensorForms checks that all element types read the same from raw data and from typed fields, packed or not.
func TestTensorForms(t *testing.T) {
	for _, d := range tensor.DTypes() {
		if d == tensor.String {
			continue
		}
		x := tensor.New(d, 5, 3)
		for i := range x.Bytes() {
			x.Bytes()[i] = byte(i*37 + 200)
			if d == tensor.Bool {
				x.Bytes()[i] = byte(i % 2)
			}
		}
		x, err := tensor.FromBytes(d, x.Shape(), x.Bytes()) // clears the bits after the last element
		if err != nil {
			t.Fatal(err)
		}
		head := join(packed(1, 5, 3), num(2, int64(d)))
		for form, data := range map[string][]byte{"raw": msg(9, x.Bytes()), "packed": typedBytes(x, true),
			"not packed": typedBytes(x, false)} {
			got, err := constOf(t, head, data)
			if err != nil || !tensor.Equal(got, x) {
				t.Errorf("%v, %s: %s, %v", d, form, got, err)
			}
		}
		for want, parts := range map[string][][]byte{
			"data in both raw_data and": {head, msg(9, x.Bytes()), typedBytes(x, true)},
			"of raw_data, found":        {head, msg(9, x.Bytes()[1:])},
			", found 0":                 {head},
			"values in":                 {packed(1, 5, 4), num(2, int64(d)), typedBytes(x, true)},
		} {
			if _, err := constOf(t, parts...); err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), `tensor "w"`) {
				t.Errorf("%v: expected %q, found %v", d, want, err)
			}
		}
	}
}

func TestStringTensors(t *testing.T) {
	x, err := constOf(t, packed(1, 3), num(2, 8), strs(6, "a,,\xff"))
	if err != nil || !slices.Equal(x.Strings(), []string{"a", "", "\xff"}) {
		t.Errorf("%s %v", x, err)
	}
	if _, err := constOf(t, packed(1, 3), num(2, 8), strs(6, "a,b")); err == nil {
		t.Error("two strings for three")
	}
	if _, err := constOf(t, packed(1, 3), num(2, 8), str(9, "abc")); err == nil {
		t.Error("strings in raw_data")
	}
}

func TestRefusedTensors(t *testing.T) {
	for want, parts := range map[string][][]byte{
		"dimension 0 is -1": {packed(1, -1), num(2, 1)},
		"is too large":      {packed(1, 1<<62), num(2, 1), msg(9, make([]byte, 8))},
		"needs 1099511627776 bytes of raw_data, found": {packed(1, 1<<38), num(2, 1), msg(9, make([]byte, 8))},
		"needs 274877906944 values in float_data":      {packed(1, 1<<38), num(2, 1)},
		"unknown element type 0":                       {packed(1, 1)},
		"unknown element type 27":                      {packed(1, 1), num(2, 27)},
		"value 300 in int32_data does not fit uint8":   {packed(1, 1), num(2, 2), packed(5, 300)},
		"value -129 in int32_data does not fit int8":   {packed(1, 1), num(2, 3), packed(5, -129)},
		"expected 0 or 1":                              {packed(1, 1), num(2, 9), packed(5, 2)},
		"float32 data in int64_data":                   {packed(1, 1), num(2, 1), packed(7, 1)},
		"data in two fields":                           {packed(1, 1), num(2, 1), packed(7, 1), f32(4, 1)},
		"segments":                                     {packed(1, 1), num(2, 1), msg(3)},
		"unknown data location 2":                      {packed(1, 1), num(2, 1), num(14, 2)},
		"more than 64 dimensions":                      {packed(1, make([]int64, 65)...), num(2, 1)},
		"names an external file": {packed(1, 1), num(2, 1),
			msg(13, str(1, "location"), str(2, "f"))},
		"field 9 occurs twice":                      {packed(1, 1), num(2, 1), str(9, "abcd"), str(9, "abcd")},
		"data in the model file and in an external": {packed(1, 1), num(2, 1), num(14, 1), str(9, "abcd")},
		"the model was not read from a folder": {packed(1, 1), num(2, 1), num(14, 1),
			msg(13, str(1, "location"), str(2, "f"))},
		"not a whole number of 4-byte values":           {packed(1, 1), num(2, 1), str(4, "abcde")},
		"field 2 has wire type 2, expected 0":           {packed(1, 1), str(2, "x")},
		`needs 1 values in float_data, found 0`:         {num(2, 1)},
		"field 4 has wire type 0, expected 5":           {num(2, 1), num(4, 1)},
		`tensor "w": name "\xff" is not UTF-8`:          nil,
		`a name of 70000 bytes, more than 32768`:        nil,
		`tensor "w": shape [4294967296 4294967296]: sh`: {packed(1, 1<<32, 1<<32), num(2, 1)},
	} {
		switch {
		case strings.Contains(want, "UTF-8"):
			parts = [][]byte{str(8, "\xff")}
			want = "is not UTF-8"
		case strings.Contains(want, "a name of"):
			parts = [][]byte{str(8, strings.Repeat("x", 70000))}
		}
		if _, err := constOf(t, parts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, found %v", want, err)
		}
	}
}

func sparseModel(elem int64, values []byte, dims []int64, indexShape []int64, indices ...int64) []byte {
	return model(graph(msg(15, msg(1, str(8, "s"),
		packed(1, int64(len(indices)/max(1, len(indexShape[1:])*int(last(indexShape))))), num(2, elem), values),
		msg(2, packed(1, indexShape...), num(2, 7), packed(7, indices...)), packed(3, dims...)), msg(12, str(1, "s"))))
}

func last(v []int64) int64 {
	if len(v) < 2 {
		return 1
	}
	return v[len(v)-1]
}

func TestSparse(t *testing.T) {
	g, _ := parse(t, sparseModel(6, packed(5, 7, -8), []int64{2, 3}, []int64{2}, 1, 5))
	if got, _ := g.Outputs[0].Const.Int64s(); !slices.Equal(got, []int64{0, 7, 0, 0, 0, -8}) {
		t.Errorf("%v", got)
	}
	g, _ = parse(t, sparseModel(22, packed(5, 0x87), []int64{2, 3}, []int64{2, 2}, 0, 1, 1, 2))
	if got, _ := g.Outputs[0].Const.Int64s(); !slices.Equal(got, []int64{0, 7, 0, 0, 0, -8}) {
		t.Errorf("int4: %v", got)
	}
	g, _ = parse(t, sparseModel(8, strs(6, "a,b"), []int64{3}, []int64{2}, 0, 2))
	if got := g.Outputs[0].Const.Strings(); !slices.Equal(got, []string{"a", "", "b"}) {
		t.Errorf("%q", got)
	}
	for want, b := range map[string][]byte{
		"index 6 is outside of 6 elements":  sparseModel(6, packed(5, 7, -8), []int64{2, 3}, []int64{2}, 1, 6),
		"index -1 is outside of 6 elements": sparseModel(6, packed(5, 7, -8), []int64{2, 3}, []int64{2}, -1, 5),
		"outside of dimension 1":            sparseModel(6, packed(5, 7, -8), []int64{2, 3}, []int64{2, 2}, 0, 0, 0, 3),
		"not in ascending order":            sparseModel(6, packed(5, 7, -8), []int64{2, 3}, []int64{2}, 5, 5),
		"more than the budget":              sparseModel(6, packed(5, 7, -8), []int64{1 << 38}, []int64{2}, 1, 5),
		"is too large":                      sparseModel(6, packed(5, 7, -8), []int64{1 << 62}, []int64{2}, 1, 5),
		"which do not match": sparseModel(6, packed(5, 7, -8), []int64{4, 4, 4}, []int64{2, 2}, 0, 1, 1,
			2),
		"needs values and indices": model(graph(msg(15))),
	} {
		refused(t, b, Options{}, want)
	}
}

func TestParseDatum(t *testing.T) {
	one := func(v float32) []byte { return join(packed(1, 1), num(2, 1), f32(4, v)) }
	f := ir.Tensor(tensor.Float32, 1)
	seq, opt := &ir.SequenceType{Elem: f}, &ir.OptionalType{Elem: f}
	show := func(d tensor.Datum) string {
		var b bytes.Buffer
		var write func(d tensor.Datum)
		write = func(d tensor.Datum) {
			switch d := d.(type) {
			case *tensor.Tensor:
				v, _ := d.Float64s()
				fmt.Fprint(&b, v)
			case *tensor.Sequence:
				b.WriteString("(")
				for _, x := range d.Items {
					write(x)
				}
				b.WriteString(")")
			case *tensor.Optional:
				b.WriteString("?")
				write(d.Value)
			}
		}
		write(d)
		return b.String()
	}
	for _, c := range []struct {
		typ  ir.Type
		data []byte
		want string
	}{
		{f, one(2), "[2]"},
		{seq, join(str(1, "s"), num(2, 1), msg(3, one(1)), msg(3, one(2))), "([1][2])"},
		{seq, nil, "()"},
		{opt, join(num(2, 1), msg(3, one(3))), "?[3]"},
		{opt, nil, "?"},
		{&ir.OptionalType{Elem: seq}, msg(5, msg(3, one(1))), "?([1])"},
		{&ir.SequenceType{Elem: opt}, join(msg(7, msg(3, one(1))), msg(7)), "(?[1]?)"},
	} {
		if d, err := ParseDatum(c.data, "x.pb", c.typ); err != nil || show(d) != c.want {
			t.Errorf("%v: %v, %v, expected %s", c.typ, show(d), err, c.want)
		}
	}
	for want, c := range map[string]struct {
		typ  ir.Type
		data []byte
	}{
		"maps are supported as inputs": {seq, msg(6)},
		"holds field 5":                {seq, msg(5)},
		"unknown element type 0":       {f, nil},
		"sparse":                       {opt, msg(4)},
	} {
		if _, err := ParseDatum(c.data, "x.pb", c.typ); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "x.pb: ") {
			t.Errorf("expected %q, found %v", want, err)
		}
	}
	if x, err := constOf(t, packed(1, 1), num(2, 1), f32(4, float32(math.Inf(1)))); err != nil ||
		tensor.Data[float32](x)[0] != float32(math.Inf(1)) {
		t.Errorf("%s %v", x, err)
	}
}
