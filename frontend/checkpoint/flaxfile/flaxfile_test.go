package flaxfile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/shared"
)

// bytesFrom reads hexadecimal numbers, and text in quotes.
func bytesFrom(t testing.TB, s string) []byte {
	t.Helper()
	var all []byte
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			all = append(all, part...)
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(part, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// vector is an array of two float32 numbers, as an extension.
const vector = "c7 15 01 93 91 02 a7 'float32' c4 08 0000803f 00000040"

func TestValues(t *testing.T) {
	for text, want := range map[string]any{
		"c0":                  nil,
		"c3":                  true,
		"7f":                  int64(127),
		"ff":                  int64(-1),
		"cd 0102":             int64(258),
		"cf ffffffffffffffff": uint64(1<<64 - 1),
		"d1 fffe":             int64(-2),
		"d3 8000000000000000": int64(-1 << 63),
		"ca 3fc00000":         1.5,
		"cb 3ff8000000000000": 1.5,
		"a1 'x'":              "x",
		"d9 01 'x'":           "x",
		"c4 02 0102":          []byte{1, 2},
		"92 01 a1 'x'":        []any{int64(1), "x"},
		"dc 0001 c2":          []any{false},
		"81 a1 'k' 05":        map[string]any{"k": int64(5)},
		"de 0001 a1 'k' 05":   map[string]any{"k": int64(5)},
		vector:                Array{[]int{2}, "float32", []byte{0, 0, 128, 63, 0, 0, 0, 64}},
		"c7 0e 03 93 90 a5 'int32' c4 04 bc020000": Array{[]int{}, "int32", []byte{0xbc, 2, 0, 0}},
		"c7 07 02 92 03 ca 3f000000":               complex(3, 0.5),
	} {
		got, err := Read(bytesFrom(t, text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: found %#v, %v, expected %#v", text, got, err, want)
		}
	}
}

func TestChunked(t *testing.T) {
	whole := "83 b9 '__msgpack_chunked_array__' c3 a5 'shape' 82 a1 '0' 02 a1 '1' 02 a6 'chunks' 82 a1 '0' " + vector + " a1 '1' " + vector
	v, err := Read(bytesFrom(t, whole))
	if err != nil {
		t.Fatal(err)
	}
	x, err := v.(Array).Tensor(func() {})
	if err != nil || fmt.Sprint(x.Shape()) != "[2 2]" {
		t.Errorf("found %s, %v", x, err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "byte 0: the file ends too early",
		"81 a1 'k'":              "byte 3: the file ends too early",
		"81 05 05":               "byte 2: expected a string as the key of a map, found int64",
		"82 a1 'k' 05 a1 'k' 06": `byte 6: key "k" is there twice`,
		"c1":                     "byte 1: no value of msgpack begins with 0xc1",
		"05 05":                  "byte 1: expected the end of the file, found 1 bytes more",
		"dd ffffffff":            "byte 5: the file ends too early",
		"c9 ffffffff 01":         "byte 6: the file ends too early",
		"d4 05 00":               "byte 3: extension of type 5: expected an array (1), a complex number (2) or a scalar (3) of flax",
		"d5 01 0000":             "byte 4: extension of type 1: expected one value of 2 bytes: found bytes behind it",
		"a1 ff":                  "byte 2: expected UTF-8 text",
		"c7 10 01 93 91 02 a7 'float32' c4 03 000080": "byte 19: array float32[2]: expected 2 numbers, found 3 bytes",
		"c7 0d 01 93 91 ff a7 'float32' c4 00":        "byte 16: array: size -1 of axis 0 is out of range",
		strings.Repeat("91", 100) + "c0":              "byte 65: values are nested deeper than 64",
	} {
		_, err := Read(bytesFrom(t, text))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\nfound %v\nwant  %s", text, err, want)
		}
	}
	a := Array{[]int{1}, "complex64", make([]byte, 8)}
	if _, err := a.Tensor(func() {}); err == nil || err.Error() != `arrays of "complex64" are not supported` {
		t.Errorf("found %v", err)
	}
}

// TestManyValues checks that the number of values is bounded.
func TestManyValues(t *testing.T) {
	b := append([]byte{0xdd, 0, 0x20, 0, 0}, make([]byte, 1<<21)...)
	if _, err := Read(b); err == nil || !strings.Contains(err.Error(), "more than 1048576 values") {
		t.Errorf("found %v", err)
	}
}

func TestFile(t *testing.T) {
	if _, err := ReadFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected a regular file") {
		t.Errorf("found %v", err)
	}
	file := filepath.Join(shared.Path(t, "reference-zoo-ckpt"), "s5-lra-cifar-classification", "checkpoint_700")
	v, err := ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	top := v.(map[string]any)
	if got := top["step"].(Array); got.DType != "int32" || len(got.Shape) != 0 {
		t.Errorf("step is %v", got)
	}
}

// FuzzRead checks that no bytes panic, and that arrays of known types become tensors.
func FuzzRead(f *testing.F) {
	for _, s := range []string{vector, "81 a1 'k' " + vector, "92 c0 cb 3ff8000000000000", "c7 07 02 92 03 ca 3f000000", "d4 01 c0",
		"83 b9 '__msgpack_chunked_array__' c3 a5 'shape' 81 a1 '0' 02 a6 'chunks' 81 a1 '0' " + vector, "df 00000001 d9 01 'x' dc 0001 d0 ff"} {
		f.Add(bytesFrom(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Read(b)
		if err == nil {
			walk(t, v)
		}
	})
}

func walk(t *testing.T, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			walk(t, x)
		}
	case []any:
		for _, x := range v {
			walk(t, x)
		}
	case Array:
		x, err := v.Tensor(func() {})
		if _, known := dtypes[v.DType]; known != (err == nil) {
			t.Errorf("%s: %v", v.DType, err)
		}
		if err == nil && len(x.Bytes()) != len(v.Data) {
			t.Errorf("tensor of %d bytes of %d", len(x.Bytes()), len(v.Data))
		}
	}
}

func TestIs(t *testing.T) {
	for head, want := range map[string]bool{"\x84": true, "\xde": true, "\x80\x02": false, "PK": false, "": false} {
		if Is([]byte(head)) != want {
			t.Errorf("%q: expected %v", head, want)
		}
	}
}

// counted is a context that is done after some checks.
type counted struct {
	context.Context
	checks, most int
}

func (c *counted) Err() error {
	if c.checks++; c.checks > c.most {
		return context.Canceled
	}
	return nil
}

// TestContext checks that a context ends the reading of a large array, of a long text and of many values.
func TestContext(t *testing.T) {
	const size = 4 << 20
	length := fmt.Sprintf("%08x", size)
	for what, data := range map[string][]byte{
		"array": append(bytesFrom(t, "81 a1 'k' c9 0040000f 01 93 91 ce 00100000 a7 'float32' c6 "+length), make([]byte, size)...),
		"text":  append(bytesFrom(t, "81 a1 'k' db "+length), make([]byte, size)...),
		"list":  append(bytesFrom(t, "81 a1 'k' dd 000f0000"), make([]byte, 0xf0000)...),
	} {
		if what == "array" { // the extension's size counts its head, too
			copy(data[4:], bytesFrom(t, fmt.Sprintf("%08x", len(data)-9)))
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		all := &counted{Context: context.Background(), most: 1 << 30}
		v, err := ReadFileContext(all, path)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		reading := len(data) / (1 << 18)
		if a, ok := v.(map[string]any)["k"].(Array); ok {
			before := all.checks
			if _, err := a.Tensor(func() { _ = all.Err() }); err != nil || all.checks-before < size/(1<<18) {
				t.Errorf("%s: %d checks while it is copied, %v", what, all.checks-before, err)
			}
		} else if all.checks < reading+8 {
			t.Errorf("%s: %d checks", what, all.checks)
		}
		for _, most := range []int{0, reading, all.checks / 3} {
			if _, err := ReadFileContext(&counted{Context: context.Background(), most: most}, path); !errors.Is(err, context.Canceled) ||
				!strings.HasPrefix(err.Error(), path) {
				t.Errorf("%s, ended after %d checks: %v", what, most, err)
			}
		}
	}
}
