package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
)

// put writes files into a folder.
func put(t testing.TB, dir string, all map[string]string) {
	t.Helper()
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func compressed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

// show prints the samples of a set in short, checked against its specification.
func show(t testing.TB, set Dataset) string {
	t.Helper()
	var out []string
	for i := range set.Len() {
		s, err := set.Sample(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Spec().Check(fmt.Sprint(i), s); err != nil {
			t.Fatal(err)
		}
		if _, estimates := set.(*TextFolder); !estimates && set.Steps(i) != s.Steps() {
			t.Errorf("sample %d has %d steps, Steps says %d", i, s.Steps(), set.Steps(i))
		}
		in, _ := s.Inputs[0].Float64s()
		to, _ := s.Target.Float64s()
		out = append(out, fmt.Sprint(in, s.Inputs[0].Shape(), to))
	}
	return strings.Join(out, " ")
}

// expect compares the samples of a set, or an error.
func expect(t testing.TB, name string, set Dataset, err error, want string) {
	t.Helper()
	if err != nil {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %q, expected %q", name, err, want)
		}
		return
	}
	if got := show(t, set); got != want {
		t.Errorf("%s: %s, expected %s", name, got, want)
	}
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text, want string
		o          TableOptions
	}{
		"label.csv":  {"a,b,kind\n1,2,x\n3,4,b\n", "[[1 2] [2 1] [1]] [[3 4] [2 1] [0]]", TableOptions{Label: "kind"}},
		"ucr.tsv":    {"10\t1\t2\tNaN\n-1\t3\tNaN\tNaN\n9\t1\t2\t3\r\n", "[1 2] [2 1] [2] [3] [1 1] [0] [1 2 3] [3 1] [1]", TableOptions{Label: "0", NoHeader: true}},
		"steps.csv":  {"1,2,3,4,y\n", "[1 2 3 4] [2 2] [0]", TableOptions{Label: "-1", NoHeader: true, Steps: 2}},
		"value.csv":  {"a,b,c\n1,2,3\n4,5,6\n", "[1] [1 1] [3 2] [4] [1 1] [6 5]", TableOptions{Targets: []string{"c", "1"}}},
		"some.csv":   {"a,b,c\n1,2,3\n", "[3 1] [2 1] [0]", TableOptions{Label: "b", Features: []string{"c", "a"}}},
		"text.csv":   {"label,text\npos,\"a,\"\"b\nc\"\nneg,d\n", "[98 45 35 99 11 100] [6] [1] [101] [1] [0]", TableOptions{Label: "label", Text: "text"}},
		"cut.csv":    {"l,t\n0,abcdef\n", "[98 99] [2] [0]", TableOptions{Label: "l", Text: "t", Length: 2}},
		"fixed.csv":  {"1,no\n2,yes\n", "[1] [1 1] [1] [2] [1 1] [0]", TableOptions{Label: "1", NoHeader: true, Classes: []string{"yes", "no"}}},
		"other.csv":  {"1,no\n2,maybe\n", `line 2: column 2: expected one of the classes ["yes" "no"], found "maybe"`, TableOptions{Label: "1", NoHeader: true, Classes: []string{"yes", "no"}}},
		"ragged.csv": {"a,b\n1,2\n\n1,2,3\n", "ragged.csv: line 4: expected 2 fields, as before, found 3", TableOptions{Label: "b"}},
		"word.csv":   {"a,b\n1,2\nx,2\n", `line 3: column 1: expected a number, found "x"`, TableOptions{Label: "b"}},
		"nan.csv":    {"1,nan,3,x\n", `line 1: column 2: expected a number, found "nan"`, TableOptions{Label: "3", NoHeader: true}},
		"inf.csv":    {"1,inf\n", `line 1: column 2: expected a number, found "inf"`, TableOptions{Label: "0", NoHeader: true}},
		"huge.csv":   {"1,1e99\n", `line 1: column 2: expected a number, found "1e99"`, TableOptions{Label: "0", NoHeader: true}},
		"target.csv": {"1,\n", `line 1: column 2: expected a number, found ""`, TableOptions{Targets: []string{"1"}, NoHeader: true}},
		"column.csv": {"a,b\n1,2\n", `line 1: column "c": expected a name or a number below 2, found ["a" "b"]`, TableOptions{Label: "c"}},
		"twice.csv":  {"a,a\n1,2\n", `column "a": expected one with this name, found several`, TableOptions{Label: "a"}},
		"quote.csv":  {"a,b\n1,\"2\n", "line 2: expected a quote at the end of a field", TableOptions{Label: "a"}},
		"after.csv":  {"1,\"2\"3\n", "line 1: expected a separator after a quoted field, found '3'", TableOptions{Label: "0", NoHeader: true}},
		"none.csv":   {"a,b\n", "none.csv: expected rows, found none", TableOptions{Label: "a"}},
		"empty.csv":  {"a,b\n,1\n", "expected the name of a class, found an empty field", TableOptions{Label: "a"}},
		"both.csv":   {"a,b\n", "expected either a label or targets", TableOptions{Label: "a", Targets: []string{"b"}}},
		"third.csv":  {"1,2,3,4\n", "expected a multiple of 2 steps as the number of features, found 3", TableOptions{Label: "0", NoHeader: true, Steps: 2}},
	} {
		put(t, dir, map[string]string{name: c.text})
		c.want = strings.TrimPrefix(strings.ReplaceAll(strings.ReplaceAll(c.want, "[[", "["), "]]", "]"), " ")
		set, err := Table(t.Context(), filepath.Join(dir, name), c.o)
		expect(t, name, set, err, c.want)
	}
	put(t, dir, map[string]string{"pairs.csv": "same,a,b\n1,x,yz\n0,abc,d\n"})
	pair, err := Table(t.Context(), filepath.Join(dir, "pairs.csv"), TableOptions{Label: "same", Text: "a", Second: "b", Length: 2})
	if err != nil {
		t.Fatal(err)
	}
	b, err := newLoader(t, pair, Options{Batch: 2}).Next(t.Context())
	if want := []int64{121, 0, 98, 99, 122, 123, 101, 0}; err != nil || !slices.Equal(tensor.Data[int64](b.Input), want) ||
		!slices.Equal(tensor.Data[int64](b.Lengths), []int64{1, 2, 2, 1}) || !slices.Equal(tensor.Data[int64](b.Target), []int64{1, 0}) {
		t.Errorf("pairs: %+v, %v", b, err)
	}
	_, err = Table(t.Context(), filepath.Join(dir, "pairs.csv"), TableOptions{Label: "same", Second: "b"})
	expect(t, "second", nil, err, "expected a text beside the second one")
	put(t, dir, map[string]string{"x.tsv.gz": compressed("a\tb\n1\t2\n")})
	set, err := Table(t.Context(), filepath.Join(dir, "x.tsv.gz"), TableOptions{Label: "b"})
	expect(t, "x.tsv.gz", set, err, "[1] [1 1] [0]")
	if _, err := Table(t.Context(), filepath.Join(dir, "wide.csv"), TableOptions{Label: "0"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	put(t, dir, map[string]string{"wide.csv": strings.Repeat(",", MaxColumns)})
	if _, err := Table(t.Context(), filepath.Join(dir, "wide.csv"), TableOptions{Label: "0"}); err == nil ||
		!strings.Contains(err.Error(), "line 1: expected at most 262144 fields, found more") {
		t.Errorf("error %v", err)
	}
	put(t, dir, map[string]string{"long.csv": "a,b\n" + strings.Repeat("1,2\n", 100000)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Table(ctx, filepath.Join(dir, "long.csv"), TableOptions{Label: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the context was done", err)
	}
}

func TestArrays(t *testing.T) {
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2)
	y := tensor.FromSlice([]int32{1, 0}, 2)
	for want, c := range map[string]struct {
		x, y, lengths *tensor.Tensor
		o             ArrayOptions
	}{
		"[1 2 3 4] [2 2] [1] [5 6 7 8] [2 2] [0]":                            {x, y, nil, ArrayOptions{Classes: 2}},
		"[1 2] [1 2] [1] [5 6 7 8] [2 2] [0]":                                {x, y, tensor.FromSlice([]int64{1, 2}, 2), ArrayOptions{Classes: 2}},
		"[1 2 3 4] [2 2] [0.5 2] [5 6 7 8] [2 2] [3 4]":                      {x, tensor.FromSlice([]float64{.5, 2, 3, 4}, 2, 2), nil, ArrayOptions{}},
		"[1 0.20000000298023224] [2 1] [1] [0 0.4000000059604645] [2 1] [0]": {tensor.FromSlice([]uint8{255, 51, 0, 102}, 2, 2), y, nil, ArrayOptions{Classes: 2}},
		"[255 51] [2 1] [1] [0 102] [2 1] [0]":                               {tensor.FromSlice([]uint8{255, 51, 0, 102}, 2, 2), y, nil, ArrayOptions{Classes: 2, Raw: true}},
		"[1 2] [2] [1] [3 4] [2] [0]":                                        {tensor.FromSlice([]int16{1, 2, 3, 4}, 2, 2), y, nil, ArrayOptions{Classes: 2, Tokens: 5}},
		"inputs: sample 1, step 1: expected a token in [0, 4), foun":         {tensor.FromSlice([]int16{1, 2, 3, 4}, 2, 2), y, nil, ArrayOptions{Classes: 2, Tokens: 4}},
		"targets: sample 0: expected a class in [0, 1), found 1":             {x, y, nil, ArrayOptions{Classes: 1}},
		"targets: expected one for each of 2 samples, found int32[3]": {x, tensor.FromSlice([]int32{0, 0, 0}, 3), nil,
			ArrayOptions{Classes: 1}},
		"targets: expected integers for classes, found float32[2]": {x, tensor.New(tensor.Float32, 2), nil, ArrayOptions{Classes: 1}},
		"lengths: sample 1: expected 1 to 2 steps, found 3":        {x, y, tensor.FromSlice([]int64{1, 3}, 2), ArrayOptions{Classes: 2}},
		"lengths: expected integers (2), found int64[1]":           {x, y, tensor.FromSlice([]int64{1}, 1), ArrayOptions{Classes: 2}},
		"inputs: expected an array (samples, steps, features)":     {y, y, nil, ArrayOptions{Classes: 2}},
		"at least one sample and one step, found float32[0,1]":     {tensor.New(tensor.Float32, 0, 1), y, nil, ArrayOptions{Classes: 2}},
		"inputs: expected integers for tokens, found float32[2,2]": {tensor.New(tensor.Float32, 2, 2), y, nil, ArrayOptions{Classes: 2, Tokens: 3}},
	} {
		set, err := Arrays(c.x, c.y, c.lengths, c.o)
		expect(t, want, set, err, want)
	}
	dir := t.TempDir()
	if err := errors.Join(arrays.Write(filepath.Join(dir, "x.npy"), x), arrays.Write(filepath.Join(dir, "y.npz"), y)); err != nil {
		t.Fatal(err)
	}
	set, err := ReadArrays(filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npz"), "", ArrayOptions{Classes: 2})
	expect(t, "files", set, err, "[1 2 3 4] [2 2] [1] [5 6 7 8] [2 2] [0]")
	_, err = ReadArrays(filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npz"), "", ArrayOptions{Classes: 1})
	expect(t, "files", nil, err, "y.npz: targets: sample 0: expected a class in [0, 1), found 1")
}

func TestCollect(t *testing.T) {
	samples := []Sample{{[]*tensor.Tensor{tensor.FromSlice([]int64{1, 2}, 2)}, class(1)}, {[]*tensor.Tensor{tensor.FromSlice([]int64{0}, 1)}, class(0)}}
	set, err := Collect(Spec{Tokens: 3, Inputs: 1, Classes: numbered(2)}, samples)
	expect(t, "samples", set, err, "[1 2] [2] [1] [0] [1] [0]")
	if n := set.Spec().Steps; n != 2 {
		t.Errorf("at most %d steps, expected 2", n)
	}
	_, err = Collect(Spec{Tokens: 2, Inputs: 1, Classes: numbered(2)}, samples)
	expect(t, "tokens", nil, err, "sample 0: input, step 1: expected a token in [0, 2), found 2")
}

// idx is a file in the IDX format.
func idx(kind byte, data string, dims ...byte) string {
	b := []byte{0, 0, kind, byte(len(dims))}
	for _, d := range dims {
		b = append(b, 0, 0, 0, d)
	}
	return string(b) + data
}

func TestIDX(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want *tensor.Tensor
		err  string
	}{
		"bytes":  {idx(8, "\x01\x02\xff", 3), tensor.FromSlice([]uint8{1, 2, 255}, 3), ""},
		"shorts": {idx(0x0b, "\x01\x02\xff\xfe", 1, 2), tensor.FromSlice([]int16{258, -2}, 1, 2), ""},
		"ints":   {idx(0x0c, "\x00\x00\x01\x00", 1), tensor.FromSlice([]int32{256}, 1), ""},
		"floats": {idx(0x0d, "\x3f\x80\x00\x00", 1), tensor.FromSlice([]float32{1}, 1), ""},
		"double": {idx(0x0e, "\x3f\xf0\x00\x00\x00\x00\x00\x00", 1), tensor.FromSlice([]float64{1}, 1), ""},
		"magic":  {"\x00\x00\x07\x01\x00\x00\x00\x00", nil, "not an IDX file: expected the bytes 00 00, a type and a number of dimensions, found 00 00 07 01"},
		"short":  {"\x00\x00\x08\x02\x00\x00\x00\x01", nil, "header: expected 2 dimensions of 4 bytes, found 4 bytes"},
		"end":    {idx(8, "\x01\x02", 3), nil, "expected uint8[3] of 1 bytes each, found 2 bytes"},
		"more":   {idx(8, "\x01\x02\x03\x04", 3), nil, "expected uint8[3] of 1 bytes each, found 4 bytes"},
		"part":   {idx(0x0b, "\x01\x02\x03", 1), nil, "expected int16[1] of 2 bytes each, found 3 bytes"},
		"huge":   {"\x00\x00\x08\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", nil, "too large"},
	} {
		for _, suffix := range []string{"", ".gz"} {
			path := filepath.Join(t.TempDir(), name+suffix)
			if suffix != "" {
				c.text = compressed(c.text)
			}
			put(t, filepath.Dir(path), map[string]string{filepath.Base(path): c.text})
			got, err := ReadIDX(t.Context(), path)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: error %v, expected %q", name+suffix, err, c.err)
				}
			} else if err != nil || !tensor.Equal(got, c.want) {
				t.Errorf("%s: %v, %v, expected %v", name+suffix, got, err, c.want)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "bomb.gz")
	put(t, filepath.Dir(path), map[string]string{"bomb.gz": compressed(strings.Repeat("\x00", Slack+1<<24))})
	if _, err := ReadIDX(t.Context(), path); err == nil || !strings.Contains(err.Error(), "expand to more than") {
		t.Errorf("error %v", err)
	}
	put(t, filepath.Dir(path), map[string]string{"bomb.gz": "\x1f\x8b, not"})
	if _, err := ReadIDX(t.Context(), path); err == nil || !strings.Contains(err.Error(), "bomb.gz: expected a gzip file") {
		t.Errorf("error %v", err)
	}
}

func TestMNIST(t *testing.T) {
	dir := t.TempDir()
	_, err := MNIST(t.Context(), dir, "train")
	want := filepath.Join(dir, "train-images-idx3-ubyte.gz") + ": file not found: put train-images-idx3-ubyte.gz of MNIST there, from https://"
	if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, expected %q", err, want)
	}
	put(t, dir, map[string]string{"train-images-idx3-ubyte.gz": compressed(idx(8, "\x00\xff\x33\x00\x00\x00\x00\x66", 2, 2, 2)),
		"train-labels-idx1-ubyte": idx(8, "\x07\x09", 2), "t10k-images-idx3-ubyte": idx(8, "\x00", 1, 1, 1)})
	set, err := MNIST(t.Context(), dir, "train")
	expect(t, "train", set, err, "[0 1 0.20000000298023224 0] [4 1] [7] [0 0 0 0.4000000059604645] [4 1] [9]")
	if s := set.Spec(); s.Height != 2 || s.Width != 2 || s.Steps != 4 || len(s.Classes) != 10 {
		t.Errorf("specification %+v", s)
	}
	for text, want := range map[string]string{
		idx(8, "\x0a", 1):     "label 0: expected 0 to 9, found 10",
		idx(8, "\x01\x01", 2): "expected one label for each of 1 pictures, found 2",
		idx(8, "", 0):         "expected one label for each of 1 pictures, found 0",
		idx(8, "\x00", 1, 1):  "expected uint8 with 1 dimensions, found uint8[1,1]",
	} {
		put(t, dir, map[string]string{"t10k-labels-idx1-ubyte": text})
		set, err := MNIST(t.Context(), dir, "test")
		expect(t, want, set, err, "t10k-labels-idx1-ubyte: "+want)
	}
	_, err = MNIST(t.Context(), dir, "val")
	expect(t, "part", nil, err, `expected train or test, found "val"`)
}

func TestCIFAR(t *testing.T) {
	dir := t.TempDir()
	picture := func(r, g, b byte) string {
		return strings.Repeat(string(rune(r)), 1024) + strings.Repeat(string(rune(g)), 1024) + strings.Repeat(string(rune(b)), 1024)
	}
	_, err := CIFAR10(t.Context(), dir, "test", CIFAROptions{})
	expect(t, "missing", nil, err, "test_batch.bin: file not found: put test_batch.bin of CIFAR-10 (binary version) there, from https://www.cs.")
	put(t, dir, map[string]string{"test_batch.bin": "\x03" + picture(51, 102, 0) + "\x09" + picture(0, 0, 0), "batches.meta.txt": "a b c d e f g h i j\n\n"})
	set, err := CIFAR10(t.Context(), dir, "test", CIFAROptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := set.Sample(t.Context(), 0)
	if got := tensor.Data[float32](s.Inputs[0]); err != nil || !slices.Equal(s.Inputs[0].Shape(), []int{1024, 3}) ||
		!slices.Equal(got[3*77:3*78], []float32{.2, .4, 0}) || set.Spec().Classes[3] != "d" {
		t.Errorf("%v %v", got[:6], err)
	}
	gray, err := CIFAR10(t.Context(), dir, "test", CIFAROptions{Gray: true})
	if err != nil {
		t.Fatal(err)
	}
	s, _ = gray.Sample(t.Context(), 0)
	// (19595·51 + 38470·102 + 32768) / 65536 = 75.6…
	if got := tensor.Data[float32](s.Inputs[0]); !slices.Equal(s.Inputs[0].Shape(), []int{1024, 1}) || got[9] != float32(75)/255 {
		t.Errorf("brightness %v, expected 75/255", got[9]*255)
	}
	put(t, dir, map[string]string{"test.bin": "\x13\x63" + picture(0, 0, 0), "train.bin": "\x00\x64" + picture(0, 0, 0)})
	for coarse, want := range map[bool]int64{true: 19, false: 99} {
		set, err := CIFAR100(t.Context(), dir, "test", CIFAROptions{Coarse: coarse})
		if err != nil {
			t.Fatal(err)
		}
		if s, _ := set.Sample(t.Context(), 0); tensor.Data[int64](s.Target)[0] != want {
			t.Errorf("class %v, expected %d", s.Target, want)
		}
	}
	_, err = CIFAR100(t.Context(), dir, "train", CIFAROptions{})
	expect(t, "label", nil, err, "train.bin: record 0: expected a label in [0, 100), found 100")
	put(t, dir, map[string]string{"test_batch.bin": "\x03" + picture(1, 1, 1) + "\x0a"})
	_, err = CIFAR10(t.Context(), dir, "test", CIFAROptions{})
	expect(t, "end", nil, err, "test_batch.bin: expected records of 3073 bytes, found 3074 bytes, which end within record 1")
}

func TestSeries(t *testing.T) {
	const head = "%# about\n@problemName X\n@timeStamps false\n@missing true\n@univariate false\n@classLabel true b a\n@data\n"
	dir := t.TempDir()
	for text, want := range map[string]string{
		head + "1,2:3,4:a\n5,?:?,6:b\r\n":      "[1 3 2 4] [2 2] [1] [5 0 5 6] [2 2] [0]",
		head + "1,2,3:a\n4:b":                  "[1 2 3] [3 1] [1] [4] [1 1] [0]",
		"@targetLabel true\n@data\n1,2:0.5\n":  "[1 2] [2 1] [0.5]",
		head + "1,2:3:a\n":                     "line 8: dimension 2: expected 2 values, as in the first one, found 1",
		head + "1:a\n1:2:a\n":                  "line 9: expected 1 dimensions, found 2",
		head + "1:c\n":                         `line 8: class: expected one of the classes ["b" "a"], found "c"`,
		head + "1,x:a\n":                       `line 8: dimension 1: value 2: expected a number or ?, found "x"`,
		head + "1,,2:a\n":                      `line 8: dimension 1: value 2: expected a number or ?, found ""`,
		head + "1,2\n":                         "line 8: expected a colon before the class, found none",
		head:                                   "expected samples after @data, found none",
		"@classLabel true a\n":                 "expected a line @data, found none",
		"@data\n1:a":                           "line 1: @data: expected either @classLabel or @targetLabel before it",
		"@timeStamps true\n":                   "line 1: @timeStamps: expected false",
		"@seriesLength 1\n" + head + "1,2:a\n": "line 9: expected at most 1 values, as @seriesLength says, found 2",
		"@dimensions 0\n":                      "line 1: @dimensions: expected 1 to 65536, found \"0\"",
		"@classLabel false\n":                  "line 1: @classLabel: expected true and the classes",
		"1,2:3:a\n":                            `line 1: expected a line of the header, such as @dimensions, @classLabel or @data, found "1,2:3:a"`,
		"@targetLabel true\n@data\n1,2:x\n":    `line 3: target: expected a number, found "x"`,
	} {
		put(t, dir, map[string]string{"x.ts": text})
		set, err := Series(t.Context(), filepath.Join(dir, "x.ts"), SeriesOptions{})
		expect(t, text, set, err, want)
	}
	put(t, dir, map[string]string{"x.ts": head + "1:a\n"})
	set, err := Series(t.Context(), filepath.Join(dir, "x.ts"), SeriesOptions{Classes: []string{"a", "b"}})
	expect(t, "classes", set, err, "[1] [1 1] [0]")
	_, err = Series(t.Context(), filepath.Join(dir, "y.ts"), SeriesOptions{})
	expect(t, "missing", nil, err, "y.ts: file not found: put y.ts of the UCR/UEA archive there, from https://www.timeseriesclassification.com")
}

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	_, err := IMDB(t.Context(), dir, "train", TextOptions{})
	expect(t, "missing", nil, err, "file not found: put train of the Large Movie Review Dataset there, from https://ai.stanford.edu/")
	put(t, dir, map[string]string{"train/pos/1_9.txt": "ba", "train/neg/0_1.txt": "äa", "train/neg/2_1.txt": "a", "train/unsup/3_0.txt": "x",
		"train/neg/urls.csv": "x"})
	set, err := IMDB(t.Context(), dir, "train", TextOptions{})
	expect(t, "bytes", set, err, "[196 165 98] [3] [0] [98] [1] [0] [99 98] [2] [1]")
	chars, err := NewCharacters(set.Each(t.Context()), 1)
	if err != nil || string(chars.Table) != "abä" || chars.Tokens() != 6 {
		t.Fatalf("characters %q, %v", string(chars.Table), err)
	}
	chars.End = true
	expect(t, "characters", set.With(TextOptions{Encode: chars}), nil, "[5 3 2] [3] [0] [3 2] [2] [0] [4 3 2] [3] [1]")
	chars.Limit = 2
	expect(t, "cut", set.With(TextOptions{Encode: chars}), nil, "[5 2] [2] [0] [3 2] [2] [0] [4 2] [2] [1]")
	few, _ := NewCharacters(set.Each(t.Context()), 2)
	expect(t, "few", set.With(TextOptions{Encode: few}), nil, "[1 3] [2] [0] [3] [1] [0] [1 3] [2] [1]")
	all, err := Texts(t.Context(), filepath.Join(dir, "train"), nil, TextOptions{Length: 1})
	expect(t, "folders", all, err, "[196] [1] [0] [98] [1] [0] [99] [1] [1] [121] [1] [2]")
	put(t, dir, map[string]string{"train/pos/empty.txt": "", "few/readme": "x"})
	set, err = IMDB(t.Context(), dir, "train", TextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Sample(t.Context(), 3)
	expect(t, "empty", nil, err, filepath.Join("pos", "empty.txt")+`: expected text with at least one token, found ""`)
	_, err = Texts(t.Context(), filepath.Join(dir, "few"), nil, TextOptions{})
	expect(t, "no folders", nil, err, "few: expected a folder for each class, found none")
}

func TestCorpus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	put(t, filepath.Dir(path), map[string]string{"a.txt": "abcdef"})
	set, err := ReadCorpus(t.Context(), path, Bytes{}, 2)
	expect(t, "corpus", set, err, "[98 99] [2] [99 100] [100 101] [2] [101 102]")
	_, err = ReadCorpus(t.Context(), path, Bytes{}, 6)
	expect(t, "short", nil, err, "a.txt: corpus: expected at least one sample of 6 steps and a token after it, found 6 tokens")
	l := newLoader(t, set, Options{Batch: 2, Padding: Padding{Steps: 3}})
	b, err := l.Next(t.Context())
	if want := []int64{99, 100, Ignore, 101, 102, Ignore}; err != nil || !slices.Equal(tensor.Data[int64](b.Target), want) {
		t.Errorf("targets %v, %v, expected %v", b.Target, err, want)
	}
}
