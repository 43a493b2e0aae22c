package arrays

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func data(name string) string { return filepath.Join("testdata", name) }

func read(t *testing.T, name string) *tensor.Tensor {
	t.Helper()
	a, err := Read(data(name))
	if err != nil {
		t.Fatal(err)
	}
	return a.Tensor
}

// counting returns arange(6).reshape(2, 3), with half an imaginary unit added to complex numbers.
func counting(t *testing.T, d tensor.DType) *tensor.Tensor {
	t.Helper()
	switch d {
	case tensor.Complex64:
		return tensor.FromSlice([]complex64{0.5i, 1 + 0.5i, 2 + 0.5i, 3 + 0.5i, 4 + 0.5i, 5 + 0.5i}, 2, 3)
	case tensor.Complex128:
		return tensor.FromSlice([]complex128{0.5i, 1 + 0.5i, 2 + 0.5i, 3 + 0.5i, 4 + 0.5i, 5 + 0.5i}, 2, 3)
	}
	x, err := tensor.FromFloat64s(d, []float64{0, 1, 2, 3, 4, 5}, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestNpyFromNumpy(t *testing.T) {
	for code, d := range npyTypes {
		for _, prefix := range []string{"le_", "be_fortran_"} {
			name := prefix + code + ".npy"
			if got, want := read(t, name), counting(t, d); !tensor.Equal(got, want) {
				t.Errorf("%s: %s %v, expected %s %v", name, got, got.Bytes(), want, want.Bytes())
			}
		}
		// Written files equal numpy's, byte for byte.
		want, err := os.ReadFile(data("le_" + code + ".npy"))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := WriteNpy(&b, counting(t, d)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s written as\n%q, numpy writes\n%q", code, b.Bytes(), want)
		}
	}
	deep := read(t, "fortran4.npy")
	for i, x := range tensor.Data[float32](deep) {
		if x != float32(i) {
			t.Fatalf("fortran4: element %d is %v", i, x)
		}
	}
	for name, want := range map[string]*tensor.Tensor{
		"scalar.npy":   tensor.Scalar(7.0),
		"vector.npy":   tensor.FromSlice([]int64{0, 1, 2}, 3),
		"empty.npy":    tensor.New(tensor.Float32, 0, 4),
		"version2.npy": tensor.FromSlice([]int16{0, 1, 2}, 3),
		"version3.npy": tensor.FromSlice([]int16{0, 1, 2}, 3),
		"two.npz:a":    tensor.FromSlice([]int64{0, 1, 2}, 3),
		"two.npz:b":    tensor.FromSlice([]float32{1, 1}, 2),
		"one.npz":      tensor.New(tensor.Float32, 10, 10),
		"one.npz:x":    tensor.New(tensor.Float32, 10, 10),
	} {
		if got := read(t, name); !tensor.Equal(got, want) {
			t.Errorf("%s: %s, expected %s", name, got, want)
		}
	}
}

func TestRefusedByName(t *testing.T) {
	for name, want := range map[string]string{
		"object.npy": "Python objects", "record.npy": "records",
		"two.npz":   `FILE.npz:KEY; it has ["a" "b"]`,
		"two.npz:c": `no array "c", it holds ["a" "b"]`, "make.py": "unknown kind of file", "gone.npy": "no such file",
	} {
		if _, err := Read(data(name)); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), strings.SplitN(name, ":", 2)[0]) {
			t.Errorf("%s: error %v, expected one about %q", name, err, want)
		}
	}
}

// TestText checks texts of fixed length in both widths, byte orders and orders of elements, what is written of strings,
// and the errors.
func TestText(t *testing.T) {
	strs := func(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }
	header := func(descr, order, shape string) string {
		return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
	}
	for _, c := range []struct {
		file []byte
		want *tensor.Tensor
		err  string
	}{
		{npy(header("<U2", "False", "(2,)"), 'a', 0, 0, 0, 'b', 0, 0, 0, 0xc4, 0, 0, 0, 0, 0, 0, 0), strs("ab", "Ä"), ""},
		{npy(header(">U1", "False", "(2,)"), 0, 0, 0, 'a', 0, 1, 0xf6, 0x42), strs("a", "\U0001f642"), ""},
		{npy(header("|S3", "False", "(2,)"), 'a', 'b', 'c', 0xc3, 0x84, 0), strs("abc", "Ä"), ""},
		{npy(header("|S1", "True", "(2, 2)"), 'a', 'b', 'c', 'd'), tensor.FromStrings([]string{"a", "c", "b", "d"}, 2, 2), ""},
		{npy(header("|S1", "False", "()"), 'a'), tensor.FromStrings([]string{"a"}), ""},
		{npy(header("<U1", "False", "(1,)"), 0, 0xd8, 0, 0), nil, "text 0: character 0 is 0xd800"},
		{npy(header("<U1", "False", "(1,)"), 0, 0, 0, 1), nil, "which Unicode does not have"},
		{npy(header("|S1", "False", "(1,)"), 0xff), nil, "text 0 is not in UTF-8"},
		{npy(header("<U0", "False", "(9,)")), nil, "a length of 1 or more"},
		{npy(header("<U999999999999", "False", "(9,)")), nil, "a length of 1 or more"},
		{npy(header("<U2", "False", "(2,)"), 'a', 0, 0, 0), nil, "needs 2 elements of 8 bytes, found 4"},
	} {
		got, err := ReadNpy(bytes.NewReader(c.file), int64(len(c.file)))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, expected one about %q", c.file, err, c.err)
			}
			continue
		}
		if err != nil || !tensor.Equal(got, c.want) {
			t.Errorf("%q: %s, %v, expected %s", c.file, got, err, c.want)
			continue
		}
		var b bytes.Buffer
		if err := WriteNpy(&b, got); err != nil {
			t.Error(err)
		} else if back, err := ReadNpy(&b, int64(b.Len())); err != nil || !tensor.Equal(back, got) {
			t.Errorf("%s is read back as %s, %v", got, back, err)
		}
	}
	for _, s := range []string{"\xff", "a\x00"} {
		if err := WriteNpy(io.Discard, strs(s)); err == nil || !strings.Contains(err.Error(), "string 0") {
			t.Errorf("%q: error %v", s, err)
		}
	}
	file := filepath.Join(t.TempDir(), "x.csv")
	for _, table := range []*tensor.Tensor{tensor.FromStrings([]string{"a", " b,\n", `"`, ""}, 2, 2),
		tensor.FromStrings([]string{"", "a", ""}, 3, 1)} {
		if err := Write(file, table); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadTextCSV(file); err != nil || !tensor.Equal(got, table) {
			t.Errorf("%q is read back as %s, %v", table.Strings(), got, err)
		}
	}
	for text, want := range map[string]string{"": "no rows", "a,b\nc\n": "wrong number of fields", "a\n\xff\n": "row 2, column 1"} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTextCSV(file); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), file) {
			t.Errorf("%q: error %v, expected one about %q", text, err, want)
		}
	}
}

// npy returns a file with the given header and data.
func npy(header string, data ...byte) []byte {
	b := append(slices.Clone(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), data...)
}

func TestNpyRefused(t *testing.T) {
	dict := func(shape string) string { return "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + "}" }
	for _, c := range []struct {
		want string
		b    []byte
	}{
		{"", npy(dict("(2,)"), 1, 2)},
		{"", npy(`{"shape": (2L,), "descr": "<u1", "fortran_order": True,}`+" \n", 1, 2)},
		{"is not a .npy", nil},
		{"is not a .npy", []byte("PK\x03\x04aaaa")},
		{"version 9.0", append(slices.Clone(npyMagic), 9, 0, 0, 0)},
		{"version 1.7", append(slices.Clone(npyMagic), 1, 7, 0, 0)},
		{"within the header", npy(dict("(2,)"))[:30]},
		{"header of 4294967295 bytes", append(slices.Clone(npyMagic), 2, 0, 0xff, 0xff, 0xff, 0xff)},
		{`expected "{"`, npy("[]")},
		{"expected descr, fortran_order and shape", npy("{}")},
		{`"descr" appears twice`, npy("{'descr': '<f4', 'descr': '<f4'}")},
		{`unknown key "d"`, npy("{'d': 1}")},
		{"bytes follow the dict", npy(dict("(2,)")+"x", 1, 2)},
		{"expected a dimension", npy(dict("(-2,)"), 1, 2)},
		{"expected a dimension", npy(dict("(99999999999999999999,)"), 1, 2)},
		{"expected a dimension", npy(dict("(__import__('os'),)"), 1, 2)},
		{"more than 64 dimensions", npy(dict("("+strings.Repeat("1,", 65)+")"), 1)},
		{"too large", npy(dict("(4611686018427387904, 4)"))},
		{"needs 1000000000000 elements", npy(dict("(1000000000000,)"), 1)},
		{"needs 2 elements of 1 bytes, found 1", npy(dict("(2,)"), 1)},
		{"needs 2 elements of 1 bytes, found 3", npy(dict("(2,)"), 1, 2, 3)},
		{"is neither numeric nor text", npy("{'descr': '<<f4', 'fortran_order': False, 'shape': ()}")},
		{"a bool is 0 or 1", npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", 2)},
	} {
		_, err := ReadNpy(bytes.NewReader(c.b), int64(len(c.b)))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.80q: error %v, expected %q", c.b, err, c.want)
		}
	}
}

func TestNpzBomb(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: "x.npy", Method: zip.Deflate, CompressedSize64: 4, UncompressedSize64: 300 << 20}
	f, err := z.CreateRaw(h)
	if err == nil {
		_, err = f.Write([]byte("1234"))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadNpz(bytes.NewReader(b.Bytes()), int64(b.Len()), "x"); err == nil ||
		!strings.Contains(err.Error(), "zip bomb") {
		t.Errorf("error %v", err)
	}
}

func TestWriteThenRead(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]*tensor.Tensor{
		"a.npy": tensor.FromSlice([]float32{1.5, -2, float32(math.Inf(1))}, 1, 3, 1),
		"b.npz": tensor.FromSlice([]int64{1, -2}, 2),
		"c.csv": tensor.FromSlice([]float64{0.1, -2e-300, math.Inf(1), 3}, 2, 2),
	} {
		path := filepath.Join(dir, name)
		if err := Write(path, want); err != nil {
			t.Fatal(err)
		}
		a, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if !tensor.Equal(a.Tensor, want) {
			t.Errorf("%s: %s, expected %s", name, a.Tensor, want)
		}
	}
	for name, x := range map[string]*tensor.Tensor{
		"d.txt": tensor.Scalar(1.0), "e.npy": tensor.New(tensor.BFloat16, 1), "f.csv": tensor.Scalar(complex64(1)),
	} {
		if err := Write(filepath.Join(dir, name), x); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, expected one that names the file", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was left behind", name)
		}
	}
}

func TestKeyOrFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz:b.npy")
	if err := Write(path, tensor.Scalar(1.0)); err != nil {
		t.Skip("no such file names here:", err)
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		in, want string
		shape    []int
	}{
		{"1,2\n3,4\n", "", []int{2, 2}},
		{"x,y\n1, 2\n\n3,4", "", []int{2, 2}},
		{"\ufeff1\r\n2\r\n", "", []int{2, 1}},
		{"\"1\",nan,-inf,1e400\n", "", []int{1, 4}},
		{"", "no numbers", nil},
		{"a,b\n", "no numbers", nil},
		{"1,2\n3\n", "wrong number of fields", nil},
		{"1,2\n3,x\n", `line 2, column 2: expected a number, found "x"`, nil},
		{"1,x\n", `line 1, column 2`, nil},
		{"1,\"2\n", "quote", nil},
		{"1,\"2\"3\n", "line 1: expected a comma after a quoted field", nil},
		{"\"a \"\"b\"\"\nc\",\"d\"\r\n\"1\", \"2 \"\r\n\r\n\n3,4", "", []int{2, 2}},
		{"a,b\nc,d\n1,2\n", `line 2, column 1: expected a number, found "c"`, nil},
		{"a\n1,2\n", "line 2: wrong number of fields: expected 1, as before, found 2", nil},
		{"a,1\n", `line 1, column 1: expected a number, found "a"`, nil},
		{"1,2,\n", `line 1, column 3: expected a number, found ""`, nil},
		{"1,", `line 1, column 2`, nil},
		{"\n\n\"x\n\",2\n", `line 3, column 1`, nil},
	} {
		x, err := ReadCSV(strings.NewReader(c.in), int64(len(c.in)))
		if c.want == "" && (err != nil || !slices.Equal(x.Shape(), c.shape)) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %s, %v, expected %v %q", c.in, x, err, c.shape, c.want)
		}
	}
	if _, err := ReadCSV(strings.NewReader("1"), maxCSV+1); err == nil {
		t.Error("expected a refusal of a large file")
	}
}

// A file takes memory in proportion to its size, also as one row of millions of columns.
func TestCSVMemory(t *testing.T) {
	worst := 0.0
	for name, text := range map[string]string{
		"a row": strings.Repeat("1,", 5<<20) + "1", "a column": strings.Repeat("1\n", 5<<20),
		"a header": strings.Repeat("x,", 5<<20), "empty lines": strings.Repeat("\n", 10<<20),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = ReadCSV(strings.NewReader(text), int64(len(text)))
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		if worst = max(worst, float64(took)/float64(len(text))); took > uint64(6*len(text)) {
			t.Errorf("%s of %d bytes takes %d", name, len(text), took)
		}
	}
	t.Logf("figure: at most %.1f times the size", worst)
}

// Fields are those of encoding/csv.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{"1,2\n3,4\n", "x,y\n1, 2\n", "\"1\",nan,-inf,1e400\n", "\"a\"\"\n\",b\r\n\r\n1,2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ReadCSV(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
		r.TrimLeadingSpace = true
		all, err := r.ReadAll()
		if err != nil {
			return // it also refuses quotes in headers without quotes around them
		}
		if len(all) != x.Dim(0) {
			all = all[1:]
		}
		if len(all) != x.Dim(0) || len(all[0]) != x.Dim(1) {
			t.Fatalf("%s, expected %d×%d", x, len(all), len(all[0]))
		}
		for i, v := range tensor.Data[float64](x) {
			text := strings.TrimSpace(all[i/x.Dim(1)][i%x.Dim(1)])
			want, err := strconv.ParseFloat(text, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) || want != v && v == v {
				t.Fatalf("element %d is %v, expected %q", i, v, text)
			}
		}
	})
}

// wav returns a file of one format and data.
func wav(kind, channels, rate, bits int, data ...byte) []byte {
	f := binary.LittleEndian.AppendUint16(nil, uint16(kind))
	f = binary.LittleEndian.AppendUint16(f, uint16(channels))
	f = binary.LittleEndian.AppendUint32(f, uint32(rate))
	f = binary.LittleEndian.AppendUint32(f, uint32(rate*channels*bits/8))
	f = binary.LittleEndian.AppendUint16(f, uint16(channels*bits/8))
	f = binary.LittleEndian.AppendUint16(f, uint16(bits))
	return riff(chunk("fmt ", f), chunk("LIST", []byte("odd")), chunk("data", data))
}

func chunk(id string, b []byte) []byte {
	c := append([]byte(id), binary.LittleEndian.AppendUint32(nil, uint32(len(b)))...)
	c = append(c, b...)
	if len(b)%2 == 1 {
		c = append(c, 0)
	}
	return c
}

func riff(chunks ...[]byte) []byte {
	body := append([]byte("WAVE"), slices.Concat(chunks...)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func readWav(b []byte) (*Array, error) { return ReadWav(bytes.NewReader(b), int64(len(b))) }

func TestWav(t *testing.T) {
	a, err := Read(data("pcm16.wav"))
	if err != nil {
		t.Fatal(err)
	}
	if want := tensor.FromSlice([]float32{0, -1, 0.5, 32767.0 / 32768}, 2, 2); a.Rate != 16000 ||
		!tensor.Equal(a.Tensor, want) {
		t.Errorf("pcm16.wav: rate %d, %v", a.Rate, tensor.Data[float32](a.Tensor))
	}
	f32 := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.25))
	f64 := binary.LittleEndian.AppendUint64(nil, math.Float64bits(-0.25))
	for _, c := range []struct {
		what string
		b    []byte
		want []float32
	}{
		{"8 bits", wav(1, 1, 8000, 8, 0, 128, 192), []float32{-1, 0, 0.5}},
		{"24 bits", wav(1, 1, 8000, 24, 0, 0, 0x80, 0, 0, 0x40), []float32{-1, 0.5}},
		{"32 bits", wav(1, 1, 8000, 32, 0, 0, 0, 0x80, 0, 0, 0, 0x40), []float32{-1, 0.5}},
		{"float32", wav(3, 1, 8000, 32, f32...), []float32{0.25}},
		{"float64", wav(3, 1, 8000, 64, f64...), []float32{-0.25}},
		{"no samples", wav(1, 1, 8000, 16), nil},
	} {
		a, err := readWav(c.b)
		if err != nil || a.Rate != 8000 || !slices.Equal(tensor.Data[float32](a.Tensor), c.want) {
			t.Errorf("%s: %v, %v, expected %v", c.what, a, err, c.want)
		}
	}
	ext := wav(0xfffe, 1, 8000, 16)[20:36]
	ext = append(ext, make([]byte, 24)...)
	ext[24] = wavPCM
	if a, err := readWav(riff(chunk("fmt ", ext), chunk("data", []byte{0, 0x40}))); err != nil ||
		tensor.Data[float32](a.Tensor)[0] != 0.5 {
		t.Errorf("extensible: %v, %v", a, err)
	}
}

func TestWavRefused(t *testing.T) {
	good := wav(1, 2, 8000, 16, 1, 2, 3, 4)
	format := chunk("fmt ", good[20:36])
	for _, c := range []struct {
		want string
		b    []byte
	}{
		{"RIFF WAVE", []byte("RIFX")},
		{"no chunk of data", riff(format)},
		{"expected the format (chunk fmt) before the data", riff(chunk("data", nil))},
		{"two chunks fmt", riff(format, format)},
		{"cut off", good[:len(good)-1]},
		{`chunk "junk" of 4294967295 bytes`, riff(append([]byte("junk"), 0xff, 0xff, 0xff, 0xff))},
		{"chunk fmt of 2 bytes", riff(chunk("fmt ", []byte{1, 2}))},
		{"sample format 1 of 12 bits", wav(1, 1, 8000, 12, 1, 2)},
		{"sample format 2", wav(2, 1, 8000, 16, 1, 2)},
		{"0 channels", wav(1, 0, 8000, 16, 1, 2)},
		{"sampling rate 0", wav(1, 1, 0, 16, 1, 2)},
		{"whole number of frames", wav(1, 2, 8000, 16, 1, 2)},
		{"more than 4096 chunks", riff(bytes.Repeat(chunk("junk", nil), 5000))},
	} {
		if _, err := readWav(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, expected one about %q", err, c.want)
		}
	}
}

func FuzzNpy(f *testing.F) {
	for _, name := range []string{"le_c8.npy", "be_fortran_f4.npy", "fortran4.npy", "version3.npy", "object.npy",
		"record.npy", "text.npy"} {
		b, err := os.ReadFile(data(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ReadNpy(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteNpy(&out, x); err != nil {
			t.Fatal(err)
		}
		y, err := ReadNpy(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || !tensor.Equal(x, y) {
			t.Fatalf("%s became %s, %v", x, y, err)
		}
	})
}

func FuzzNpz(f *testing.F) {
	for _, name := range []string{"one.npz", "two.npz"} {
		b, err := os.ReadFile(data(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "a")
		f.Add(b, "")
	}
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		if x, err := ReadNpz(bytes.NewReader(b), int64(len(b)), key); err == nil && x.Len() > 0 && len(x.Bytes()) == 0 {
			t.Fatal("no storage")
		}
	})
}

func FuzzWav(f *testing.F) {
	f.Add(wav(1, 2, 8000, 16, 1, 2, 3, 4))
	f.Add(wav(1, 1, 8000, 24, 1, 2, 3))
	f.Add(wav(3, 1, 8000, 32, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := readWav(b); err == nil && (a.Tensor.Rank() != 2 || a.Tensor.Dim(1) < 1 || a.Rate < 1) {
			t.Fatalf("%s at %d Hz", a.Tensor, a.Rate)
		}
	})
}
