package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/tensor"
)

// file puts a header and data together as a file.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func readBytes(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b)), "x") }

// sample holds one tensor of every dtype that the format knows, a scalar and an empty one.
func sample() map[string]*tensor.Tensor {
	all := map[string]*tensor.Tensor{
		"scalar":         tensor.Scalar(float32(3)),
		"empty":          tensor.New(tensor.Float32, 0, 7),
		`odd "name"\<é>`: tensor.FromSlice([]float32{1, 2}, 2),
	}
	for i, ty := range types {
		t := tensor.New(ty.dtype, 2, 3)
		for j := range t.Bytes() {
			t.Bytes()[j] = byte(i+j) & 1
		}
		all["t."+ty.name] = t
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	want, meta := sample(), map[string]string{"format": "pt", "a": "ü\n"}
	var first bytes.Buffer
	if err := Write(&first, want, meta); err != nil {
		t.Fatal(err)
	}
	f, err := readBytes(first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Names(), slices.Sorted(maps.Keys(want))) {
		t.Errorf("names %v", f.Names())
	}
	for name, w := range want {
		if !tensor.Equal(f.Tensors[name], w) {
			t.Errorf("tensor %q: %s, expected %s with its bytes", name, f.Tensors[name], w)
		}
	}
	if !maps.Equal(f.Meta, meta) {
		t.Errorf("metadata %v, expected %v", f.Meta, meta)
	}
	var second bytes.Buffer
	if err := Write(&second, f.Tensors, f.Meta); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("writing what was read gives other bytes")
	}
}

// TestLayout pins the reference implementation's layout: wide dtypes first, then names, header padded to 8 bytes.
func TestLayout(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, map[string]*tensor.Tensor{
		"b": tensor.FromSlice([]float32{1}, 1),
		"a": tensor.FromSlice([]float32{2}, 1),
		"c": tensor.FromSlice([]int64{3}, 1),
		"d": tensor.FromSlice([]bool{true}, 1),
	}, map[string]string{"k": "v"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"__metadata__":{"k":"v"},` +
		`"c":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},` +
		`"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},` +
		`"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},` +
		`"d":{"dtype":"BOOL","shape":[1],"data_offsets":[16,17]}}`
	n := binary.LittleEndian.Uint64(b.Bytes())
	header := string(b.Bytes()[8 : 8+n])
	if n%8 != 0 || strings.TrimRight(header, " ") != want {
		t.Errorf("header (%d bytes)\n%q, expected\n%q", n, header, want)
	}
}

func TestEmpty(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, nil, nil); err != nil {
		t.Fatal(err)
	}
	if f, err := readBytes(b.Bytes()); err != nil || len(f.Tensors) != 0 {
		t.Errorf("read %v, %v", f, err)
	}
}

func TestRefused(t *testing.T) {
	ok := `"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}`
	for _, c := range []struct {
		what, want string
		b          []byte
	}{
		{"empty file", "too short", nil},
		{"header longer than the file", "expected a header of 99 bytes, found 2",
			append(binary.LittleEndian.AppendUint64(nil, 99), "{}"...)},
		{"header beyond the limit", "at most 100000000", append(binary.LittleEndian.AppendUint64(nil, 1<<62), "{}"...)},
		{"no JSON", "not JSON", file(`{"a":`)},
		{"no object", "JSON object", file(`[]`)},
		{"not UTF-8", "not UTF-8", file("{\"\xff\":1}")},
		{"two objects", "not JSON", file(`{}{}`)},
		{"duplicate tensor", `"a" appears twice`, file("{"+ok+","+ok+"}", 1, 2)},
		{"duplicate key", `"dtype" appears twice`,
			file(`{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)},
		{"unknown key", `unknown key "type"`, file(`{"a":{"type":"U8"}}`)},
		{"unknown dtype", `tensor "w": unknown dtype "F6_E2M3"`,
			file(`{"w":{"dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2]}}`, 1, 2)},
		{"lower-case key", `unknown key "Dtype"`, file(`{"a":{"Dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)},
		{"no dtype", "no dtype", file(`{"a":{"shape":[2],"data_offsets":[0,2]}}`, 1, 2)},
		{"no shape", "no shape", file(`{"a":{"dtype":"U8","data_offsets":[0,2]}}`, 1, 2)},
		{"no offsets", "data_offsets", file(`{"a":{"dtype":"U8","shape":[2]}}`, 1, 2)},
		{"negative dimension", "non-negative", file(`{"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}}`, 1, 2)},
		{"fraction", "non-negative integer", file(`{"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}}`, 1, 2)},
		{"overflow", "too large", file(`{"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`)},
		{"length overflow", "does not take",
			file(`{"a":{"dtype":"F64","shape":[288230376151711744],"data_offsets":[0,0]}}`)},
		{"length", "does not take the 3 bytes", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}}`, 1, 2, 3)},
		{"reversed offsets", "data_offsets [begin, end]",
			file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}}`, 1, 2)},
		{"overlap", `"b": data at 1 overlaps that of "a"`,
			file("{"+ok+`,"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 1, 2, 3)},
		{"same place", "overlaps", file("{"+ok+`,"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)},
		{"hole", `"b": data at 3 leaves a hole after 2`,
			file("{"+ok+`,"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 1, 2, 3, 4)},
		{"hole at the start", "hole after 0", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2)},
		{"beyond the end", "file holds 1 bytes", file("{"+ok+"}", 1)},
		{"trailing bytes", "2 bytes of data are described, file holds 3", file("{"+ok+"}", 1, 2, 3)},
		{"metadata of numbers", "__metadata__", file(`{"__metadata__":{"a":1}}`)},
		{"bool", "a BOOL is 0 or 1", file(`{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, 1, 2)},
		{"half bytes", "whole bytes", file(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, 1, 2)},
		{"rank", "more than 64", file(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,", 64)+
			`1],"data_offsets":[0,1]}}`, 1)},
	} {
		_, err := readBytes(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x: ") {
			t.Errorf("%s: error %v, expected one about %q", c.what, err, c.want)
		}
	}
}

func TestWriteRefused(t *testing.T) {
	for name, x := range map[string]*tensor.Tensor{
		"__metadata__": tensor.New(tensor.Uint8, 1),
		"\xff":         tensor.New(tensor.Uint8, 1),
		"nil":          nil,
		"strings":      tensor.New(tensor.String, 1),
		"complex128":   tensor.New(tensor.Complex128, 1),
		"odd":          tensor.New(tensor.Float4E2M1, 3),
	} {
		path := filepath.Join(t.TempDir(), "a")
		err := WriteFile(path, map[string]*tensor.Tensor{name: x}, nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("%q: error %v, expected one that names the tensor", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: a file was left behind", name)
		}
	}
}

// short is a file whose reads fail after some bytes, as on a bad disk.
type short struct {
	*bytes.Reader
	limit int64
}

func (s short) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > s.limit {
		return 0, io.EOF
	}
	return s.Reader.ReadAt(b, off)
}

func TestTruncatedWhileReading(t *testing.T) {
	b := file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)
	for limit := range int64(len(b)) {
		if _, err := Read(short{bytes.NewReader(b), limit}, int64(len(b)), "x"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("limit %d: error %v, expected %v", limit, err, io.ErrUnexpectedEOF)
		}
	}
}

// shards writes a directory of two shards and an index.
func shards(t *testing.T, index string) string {
	t.Helper()
	dir := t.TempDir()
	one := map[string]*tensor.Tensor{"a": tensor.FromSlice([]float32{1}, 1), "b": tensor.FromSlice([]float32{2}, 1)}
	two := map[string]*tensor.Tensor{"c": tensor.FromSlice([]float32{3}, 1)}
	for name, content := range map[string]map[string]*tensor.Tensor{"model-00001-of-00002.safetensors": one,
		"model-00002-of-00002.safetensors": two} {
		if err := WriteFile(filepath.Join(dir, name), content, nil); err != nil {
			t.Fatal(err)
		}
	}
	index = strings.NewReplacer("@1", "model-00001-of-00002.safetensors", "@2",
		"model-00002-of-00002.safetensors").Replace(index)
	if err := os.WriteFile(filepath.Join(dir, IndexName), []byte(index), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSharded(t *testing.T) {
	all, err := ReadDir(shards(t, `{"metadata":{"total_size":12},"weight_map":{"a":"@1","b":"@1","c":"@2"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b", "c"} {
		if all[name] == nil || tensor.Data[float32](all[name])[0] != float32(i+1) {
			t.Errorf("tensor %s: %s", name, all[name])
		}
	}
	for _, c := range []struct{ index, want string }{
		{`{"weight_map":{"a":"@1","c":"@2"}}`, `"b" is not placed here`},
		{`{"weight_map":{"a":"@1","b":"@1","c":"@1"}}`, `"c" is missing from model-00001`},
		{`{"weight_map":{"a":"@1","b":"@2","c":"@2"}}`, `"b" is not placed here`},
		{`{"weight_map":{"a":"@1","b":"@1","c":"@2","d":"@2"}}`, `"d" is missing from model-00002`},
		{`{"weight_map":{"a":"../@1"}}`, "file in this folder"},
		{`{"weight_map":{"a":"/etc/passwd"}}`, "file in this folder"},
		{`{"weight_map":{"a":".."}}`, "file in this folder"},
		{`{"weight_map":{"a":""}}`, "file in this folder"},
		{`{"weight_map":{"a":"gone"}}`, `shard "gone"`},
		{`{"weight_map":{}}`, "no weight_map"},
		{`{"weight_map":1}`, "weight_map"},
		{`[`, "JSON"},
	} {
		if _, err := ReadSharded(shards(t, c.index)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected one about %q", c.index, err, c.want)
		}
	}
}

// TestManyEntries checks that headers and indices with many entries are refused in time and memory proportional to them.
func TestManyEntries(t *testing.T) {
	list := func(n int, entry string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, entry, i)
		}
		return b.String()
	}
	const many = MaxTensors + 1
	metadata := file(`{"__metadata__":{` + list(many, `"%x":"a"`) + `}}`)
	tensors := file(`{` + list(many, `"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`) + `}`)
	index := `{"metadata":{"x":[1,{"y":2}]},"weight_map":{` + list(many, `"%x":"@1"`) + `}}`
	dir := shards(t, index)
	for _, c := range []struct {
		want string
		json []byte
		read func() error
	}{
		{"__metadata__: expected at most 65536 entries", metadata[8:], func() error { _, err := readBytes(metadata); return err }},
		{"expected at most 262144 tensors", tensors[8:], func() error { _, err := readBytes(tensors); return err }},
		{"weight_map: expected at most 262144 tensors", []byte(index), func() error { _, err := ReadSharded(dir); return err }},
	} {
		start := worktime.Now()
		if !json.Valid(c.json) {
			t.Fatal("the test's own header is not JSON")
		}
		unit := worktime.Now() - start

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start = worktime.Now()
		err := c.read()
		took := worktime.Now() - start
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, expected %q", err, c.want)
		}
		n := int64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%q: %d bytes allocated, %v for %d bytes, which the json package checks in %v", c.want, n, took, len(c.json), unit)
		if n > 16<<20+64*int64(len(c.json)) || took > 100*unit+100*time.Millisecond { // garbage included
			t.Errorf("%q: %d bytes allocated and %v of processor time for %d bytes, which the json package checks in %v", c.want, n, took, len(c.json), unit)
		}
	}
}

func TestShardLinkLeavingTheFolder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "w.safetensors")
	if err := WriteFile(outside, map[string]*tensor.Tensor{"a": tensor.Scalar(float32(1))}, nil); err != nil {
		t.Fatal(err)
	}
	dir := shards(t, `{"weight_map":{"a":"link"}}`)
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if _, err := ReadSharded(dir); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("error %v, expected a refusal that names the link", err)
	}
}

func TestReadDirOfNothing(t *testing.T) {
	if _, err := ReadDir(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds neither") {
		t.Errorf("error %v", err)
	}
}

// FuzzRead checks that no bytes panic, and that what is read is written and read again unchanged.
func FuzzRead(f *testing.F) {
	// Small seeds: the fuzzer takes a minute to make each interesting input smaller, and long ones keep it from all
	// else.
	var b bytes.Buffer
	few := map[string]*tensor.Tensor{"a": tensor.Scalar(true), "b": tensor.FromSlice([]int16{1, 2}, 2)}
	if err := Write(&b, few, map[string]string{"a": "b"}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	for _, ty := range types {
		f.Add(file(`{"a":{"dtype":"`+ty.name+`","shape":[8],"data_offsets":[0,`+strconv.Itoa(ty.dtype.Bits())+`]}}`,
			make([]byte, ty.dtype.Bits())...))
	}
	f.Add(file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}}`))
	f.Add(file(`{"__metadata__":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := readBytes(b)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, x.Tensors, x.Meta); err != nil {
			t.Fatal(err)
		}
		y, err := readBytes(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range x.Names() {
			if !tensor.Equal(x.Tensors[name], y.Tensors[name]) {
				t.Fatalf("tensor %q changed", name)
			}
		}
		if len(x.Tensors) != len(y.Tensors) {
			t.Fatal("tensors were added")
		}
	})
}
