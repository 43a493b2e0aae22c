package torchfile

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func load(t *testing.T, name string) any {
	t.Helper()
	v, err := ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, key := range path {
		d, ok := v.(*Dict)
		if !ok {
			t.Fatalf("%s: found %s where a dict should be", key, Describe(v))
		}
		if v, ok = d.Get(key); !ok {
			t.Fatalf("no key %s", key)
		}
	}
	return v
}

func TestTensors(t *testing.T) {
	transposed := make([]float32, 0, 24)
	for k := range 4 {
		for j := range 3 {
			for i := range 2 {
				transposed = append(transposed, float32(i*12+j*4+k))
			}
		}
	}
	base := make([]float32, 24)
	for i := range base {
		base[i] = float32(i)
	}
	want := []struct {
		name string
		t    *tensor.Tensor
	}{
		{"f32", tensor.FromSlice(base, 2, 3, 4)},
		{"transposed", tensor.FromSlice(transposed, 4, 3, 2)},
		{"slice", tensor.FromSlice([]float32{13, 14, 17, 18, 21, 22}, 3, 2)},
		{"row", tensor.FromSlice([]float32{16, 17, 18, 19}, 4)},
		{"expanded", tensor.FromSlice([]float32{1, 1, 1, 2, 2, 2}, 2, 3)},
		{"scalar", tensor.Scalar(float32(2.5))},
		{"empty", tensor.New(tensor.Float32, 0, 3)},
		{"parameter", tensor.FromSlice([]float32{1, -2}, 2)},
		{"f64", tensor.FromSlice([]float64{0.1}, 1)},
		{"f16", tensor.FromSlice([]tensor.F16{tensor.ToF16(0.5), tensor.ToF16(-1)}, 2)},
		{"bf16", tensor.FromSlice([]tensor.BF16{tensor.ToBF16(0.5), tensor.ToBF16(-1)}, 2)},
		{"i64", tensor.FromSlice([]int64{-1 << 62, 1 << 62}, 2)},
		{"i32", tensor.FromSlice([]int32{-5}, 1)},
		{"i16", tensor.FromSlice([]int16{-6}, 1)},
		{"i8", tensor.FromSlice([]int8{-7}, 1)},
		{"u8", tensor.FromSlice([]uint8{200}, 1)},
		{"bool", tensor.FromSlice([]bool{true, false}, 2)},
		{"c64", tensor.FromSlice([]complex64{1 + 2i}, 1)},
		{"c128", tensor.FromSlice([]complex128{3 - 4i}, 1)},
	}
	for _, file := range []string{"tensors.pt", "protocol5.pt"} {
		d := load(t, file).(*Dict)
		if d.Len() != len(want) {
			t.Errorf("%s: %d tensors, expected %d", file, d.Len(), len(want))
		}
		for _, w := range want {
			got, ok := at(t, d, w.name).(*tensor.Tensor)
			if !ok || !tensor.Equal(got, w.t) {
				t.Errorf("%s: %s is %s, expected %s with its elements", file, w.name, got, w.t)
			}
		}
		// Tensors over one storage share its memory, so a checkpoint is not held several times.
		whole, row := at(t, d, "f32").(*tensor.Tensor), at(t, d, "row").(*tensor.Tensor)
		if &whole.Bytes()[16*4] != &row.Bytes()[0] {
			t.Errorf("%s: a row was copied out of its storage", file)
		}
	}
}

func TestValues(t *testing.T) {
	for _, file := range []string{"values.pt", "values5.pt"} {
		d := load(t, file).(*Dict)
		shift := func(sign int64, n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(sign), n) }
		for key, want := range map[string]any{
			"none": nil, "true": true, "false": false, "float": 1.5, "str": "ü\n", "bytes": []byte{0, 255},
			"empty_bytes": []byte{},
			"bytearray":   []byte("ab"),
			"ints": []any{int64(0), int64(255), int64(256), int64(65536), int64(-1), int64(1 << 31), int64(-1 << 63),
				shift(1, 63), shift(1, 100), shift(-1, 100)},
			"tuple": Tuple{},
			"nested": Tuple{Tuple{int64(1)}, Tuple{int64(1), int64(2)}, Tuple{int64(1), int64(2), int64(3)},
				Tuple{int64(1), int64(2), int64(3), int64(4)}},
			"set": Set{int64(7)}, "frozenset": Set{int64(8)}, "size": Tuple{int64(2), int64(3)}, "dtype": tensor.Float16,
			"device": &Placeholder{Module: "torch", Name: "device", Called: true, Args: Tuple{"cpu"}},
			"complex": &Placeholder{Module: map[string]string{"values.pt": "__builtin__",
				"values5.pt": "builtins"}[file], Name: "complex", Called: true, Args: Tuple{1.0, 2.0}},
			"class": &Placeholder{Module: "pytorch_lightning.callbacks", Name: "ModelCheckpoint"},
		} {
			if got := at(t, d, key); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %#v, expected %#v", file, key, got, want)
			}
		}
		var order []any
		for k := range at(t, d, "ordered").(*Dict).All() {
			order = append(order, k)
		}
		if !slices.Equal(order, []any{"b", "a"}) {
			t.Errorf("%s: keys %v, expected those of the file in order", file, order)
		}
		if v := at(t, d, "default", "k"); v != int64(1) {
			t.Errorf("%s: default holds %v", file, v)
		}
		others := map[string]bool{}
		for k, v := range d.All() {
			if _, ok := k.(string); !ok {
				others[Describe(k)+" = "+v.(string)] = true
			}
		}
		want := map[string]bool{"an int = int key": true, "a tuple = tuple key": true,
			"a reference to pytorch_lightning.callbacks.ModelCheckpoint = class key": true}
		if !reflect.DeepEqual(others, want) {
			t.Errorf("%s: other keys %v", file, others)
		}
	}
}

func TestConfigurationObjectsAreUnwrapped(t *testing.T) {
	h := at(t, load(t, "omegaconf.ckpt"), "hyper_parameters")
	for want, path := range map[any][]string{
		int64(8): {"model", "d_model"}, 0.001: {"model", "layer", "lr", "B"}, nil: {"model", "layer", "max_kernel_length"},
		"${..dropout}": {"model", "layer", "dropout"}, "pool": {"decoder", "mode"}, "???": {"missing"},
	} {
		if got := at(t, h, path...); got != want {
			t.Errorf("%v is %v, expected %v", path, got, want)
		}
	}
	if got := at(t, h, "model", "sizes"); !reflect.DeepEqual(got, []any{int64(1), int64(2), []any{int64(3)}}) {
		t.Errorf("sizes are %#v", got)
	}
	h = at(t, load(t, "attributes.ckpt"), "hyper_parameters")
	if got := at(t, h, "model", "d_model"); got != int64(8) {
		t.Errorf("d_model is %v", got)
	}
	if got := at(t, h, "nodes", "a"); !reflect.DeepEqual(got, []any{int64(1)}) {
		t.Errorf("nodes.a is %#v", got)
	}
}

func TestStateDict(t *testing.T) {
	d := load(t, "state_dict.pt").(*Dict)
	var names []string
	for k, v := range d.All() {
		if _, ok := v.(*tensor.Tensor); !ok {
			t.Errorf("%v is %s", k, Describe(v))
		}
		names = append(names, k.(string))
	}
	if want := []string{"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
		"1.num_batches_tracked"}; !slices.Equal(names, want) {
		t.Errorf("names %v, expected %v", names, want)
	}
}

func TestNothingIsExecuted(t *testing.T) {
	d := load(t, "malicious.pt")
	w := at(t, d, "state_dict", "encoder.weight")
	if Describe(w) != "a call of posix.system" {
		t.Errorf("found %s", Describe(w))
	}
	if p := w.(*Placeholder); !reflect.DeepEqual(p.Args, Tuple{"touch executed"}) {
		t.Errorf("arguments %#v", p.Args)
	}
	if m, ok := load(t, "module.pt").(*Placeholder); !ok ||
		m.String() != "a call of torch.nn.modules.container.Sequential" {
		t.Errorf("module is %v", m)
	}
}

func TestRefusedFiles(t *testing.T) {
	for name, want := range map[string]string{
		"legacy.pt": "torch.save(torch.load(FILE", "script.pt": "TorchScript", "cycle.pt": "a list contains itself",
		"make.py": "expected a zip archive",
	} {
		_, err := ReadFile(filepath.Join("testdata", name))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, expected one about %q", name, err, want)
		}
	}
}

// pack makes an archive of names and contents.
func pack(t testing.TB, deflate bool, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		h := &zip.FileHeader{Name: parts[i]}
		if deflate {
			h.Method = zip.Deflate
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(parts[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readBytes(b []byte) (any, error) { return Read(bytes.NewReader(b), int64(len(b)), "x") }

func TestArchives(t *testing.T) {
	const none = "\x80\x02N."
	for _, c := range []struct {
		want    string
		deflate bool
		parts   []string
	}{
		{"", false, []string{"a/data.pkl", none, "a/version", "3\n"}},
		{"", true, []string{"a/data.pkl", none, "a/byteorder", "little"}},
		{`byte order is "big"`, false, []string{"a/data.pkl", none, "a/byteorder", "big"}},
		{"no data.pkl", false, []string{"data.pkl", none}},
		{"no data.pkl", false, []string{"a/b/data.pkl", none}},
		{"both a/data.pkl and b/data.pkl", false, []string{"a/data.pkl", none, "b/data.pkl", none}},
		{`two entries "a/version"`, false, []string{"a/data.pkl", none, "a/version", "3", "a/version", "3"}},
	} {
		_, err := readBytes(pack(t, c.deflate, c.parts...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.60q: error %v, expected %q", c.parts, err, c.want)
		}
	}
}

func TestZipBomb(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range 2 { // each is allowed, both are not
		h := &zip.FileHeader{Name: fmt.Sprintf("a/data/%d", i), Method: zip.Deflate, CompressedSize64: 4,
			UncompressedSize64: 40 << 20}
		if i == 0 {
			h.Name = "a/data.pkl"
		}
		w, err := z.CreateRaw(h)
		if err == nil {
			_, err = w.Write([]byte("1234"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readBytes(b.Bytes()); err == nil || !strings.Contains(err.Error(), "zip bomb") {
		t.Errorf("error %v, expected one about a zip bomb", err)
	}
}

func TestDamagedArchive(t *testing.T) {
	b, err := os.ReadFile("testdata/tensors.pt")
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}) // 1.0, 2.0 in a storage
	b[i+2] ^= 1
	if _, err := readBytes(b); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("flipped bit: error %v, expected one about the checksum", err)
	}
	for n := range len(b) {
		if _, err := readBytes(b[:n]); err == nil {
			t.Fatalf("the first %d bytes were read", n)
		}
	}
}

// fakeStorages has zeros of any size as "0" to "9".
type fakeStorages struct{ n int }

func (f fakeStorages) storage(key string) ([]byte, error) {
	if len(key) != 1 || key[0] < '0' || key[0] > '9' {
		return nil, fmt.Errorf("archive holds no data/%s", key)
	}
	return make([]byte, f.n), nil
}

func unpickle(b string) (any, error) {
	m := &machine{storages: fakeStorages{32}, budget: 1 << 16}
	return m.run([]byte(b))
}

// rebuild is the pickle of a tensor over storage "0", which has 8 float32 elements.
func rebuild(count, offset byte, size, stride string) string {
	return "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK" +
		string(count) + "tQK" + string(offset) + "(" + size + "t(" + stride + "t\x89)tR."
}

func TestPickles(t *testing.T) {
	deep := strings.Repeat("(", 1000) + "N" + strings.Repeat("t", 1000)
	shared := "]q\x00" // each list holds the one before twice
	for i := range 60 {
		shared += fmt.Sprintf("](h%ch%ceq%c", i, i, i+1)
	}
	shared += "0" + strings.Repeat("0", 60) + "h\x3c"
	copies := "(" + strings.Repeat("N", 3000) + "lq\x000" + strings.Repeat("cbuiltins\nlist\nh\x00\x85RNa0", 3000) + "N"
	for _, c := range []struct{ what, in, want string }{
		{"none", "N.", ""},
		{"strided", rebuild(8, 1, "K\x02K\x02", "K\x03K\x02"), ""},
		{"empty", "", "ends early"},
		{"no stop", "N", "ends early"},
		{"two values", "NN.", "2 values"},
		{"no value", ".", "0 values"},
		{"trailing", "N.N", "1 bytes follow"},
		{"protocol", "\x80\x06N.", "protocol 6"},
		{"unknown opcode", "\x01.", "opcode 0x01"},
		{"extension", "\x82\x01.", "opcode 0x82"},
		{"inst", "(iposix\nsystem\n.", "opcode 0x69"},
		{"long string", "X\xff\xff\xff\xff.", "ends early"},
		{"long string 8", "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "ends early"},
		{"not UTF-8", "U\x01\xff.", "UTF-8"},
		{"long integer", "\x8b\x01\x04\x00\x00" + strings.Repeat("\x00", 1025) + ".", "integer of 1025 bytes"},
		{"memo", "h\x05.", "memoized as 5"},
		{"no mark", "Nt.", "no mark"},
		{"mark as value", "(.", "mark"},
		{"append to none", "NNa.", "None where a list"},
		{"set item of none", "NNNs.", "None where a dict"},
		{"odd items", "}(Nu.", "key without a value"},
		{"list as key", "}]Ns.", "cannot be the key"},
		{"call of a string", "U\x01a)R.", "a string where a class"},
		{"arguments", "cos\nsystem\nNR.", "None where the arguments"},
		{"build of an int", "K\x01Nb.", "an int where an object"},
		{"bad id", "NQ.", "None where the id of a storage"},
		{"deep", deep + ".", "nested more than 500"},
		{"shared", shared + ".", "more memory than its size allows"},
		{"copies", copies + ".", "more memory than its size allows"},
		{"cycle", "]q\x00h\x00a.", "a list contains itself"},
		{"cycle of a dict", "}q\x00Nh\x00s.", "a dict contains itself"},
		{"cycle in an object", "cm\nC\n)\x81q\x00h\x00b.", ""},
		{"count", rebuild(7, 0, "K\x02", "K\x01"), "7 elements of 4 bytes announced, found 32"},
		{"reach", rebuild(8, 0, "K\x03", "K\x04"), "reaches element 8 of 8"},
		{"offset", rebuild(8, 8, "K\x01", "K\x01"), "reaches element 8 of 8"},
		{"negative stride", rebuild(8, 4, "K\x02", "J\xff\xff\xff\xff"), "negative"},
		{"negative size", rebuild(8, 4, "J\xff\xff\xff\xff", "K\x01"), "negative"},
		{"ranks", rebuild(8, 0, "K\x02", "K\x01K\x01"), "expected a storage, an offset, sizes and strides"},
		{"overflow", rebuild(8, 0, "J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7f", "K\x00K\x00K\x00"), "too large"},
		{"expanded", rebuild(8, 0, "J\xff\xff\xff\x7f", "K\x00"), "more memory than its size allows"},
		{"no storage", strings.Replace(rebuild(8, 0, "K\x01", "K\x01"), "\x000X", "\x00xX", 1), "no data/x"},
		{"storage as value", "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x08tQ.", "a storage where"},
		{"storage type", strings.Replace(rebuild(8, 0, "K\x01", "K\x01"), "FloatStorage", "QInt8Storage", 1),
			"torch.QInt8Storage"},
	} {
		v, err := unpickle(c.in)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: value %v, error %v, expected %q", c.what, v, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 300) {
			t.Errorf("%s: error is not one short line: %.400q", c.what, err)
		}
	}
}

// TestUntypedStorage reads the form in which torch 2 writes dtypes that have no storage type of their own.
func TestUntypedStorage(t *testing.T) {
	v, err := unpickle("\x80\x02ctorch._utils\n_rebuild_tensor_v3\n((X\x07\x00\x00\x00storagectorch.storage\nUntypedStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x20tQ" +
		"K\x02(K\x03t(K\x01t\x89)ctorch\nuint16\ntR.")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := v.(*tensor.Tensor); !ok || got.String() != "uint16[3]" {
		t.Errorf("found %s", Describe(v))
	}
}

// TestParameterWithAttributes reads a tensor that carries Python attributes.
func TestParameterWithAttributes(t *testing.T) {
	inner := strings.TrimSuffix(strings.TrimPrefix(rebuild(8, 0, "K\x02", "K\x01"), "\x80\x02"), "R.")
	v, err := unpickle("ctorch._tensor\n_rebuild_from_type_v2\n(" +
		strings.Replace(inner, "_rebuild_tensor_v2\n", "_rebuild_tensor_v2\nctorch\nTensor\n", 1) + "}tR.")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := v.(*tensor.Tensor); !ok || got.String() != "float32[2]" {
		t.Errorf("found %s", Describe(v))
	}
}

// walk checks that a value is what the package promises: a tree of known kinds.
func walk(t *testing.T, v any, depth int) {
	if depth > MaxDepth+1 {
		t.Fatal("too deep")
	}
	switch v := v.(type) {
	case nil, bool, int64, *big.Int, float64, string, []byte, *tensor.Tensor, tensor.DType:
	case []any:
		for _, x := range v {
			walk(t, x, depth+1)
		}
	case Tuple:
		walk(t, []any(v), depth)
	case Set:
		walk(t, []any(v), depth)
	case *Dict:
		for k, x := range v.All() {
			walk(t, k, depth+1)
			walk(t, x, depth+1)
		}
	case *Placeholder:
		walk(t, v.Args, depth+1)
		walk(t, v.State, depth+1)
	default:
		t.Fatalf("found a %T", v)
	}
}

// seeds are the files of testdata that are small, or their pickles. The fuzzer takes a minute to make each interesting
// input smaller, and longer inputs keep it from everything else.
func seeds(f *testing.F, pickles bool) {
	const most = 600
	names, err := filepath.Glob("testdata/*.[pc]*t")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds")
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if pickles {
			a, err := openArchive(nil, bytes.NewReader(b), int64(len(b)))
			if err != nil {
				continue
			}
			if b, err = a.bytes("data.pkl", MaxPickle); err != nil {
				f.Fatal(err)
			}
		}
		if len(b) <= most {
			f.Add(b)
		}
	}
}

func FuzzUnpickle(f *testing.F) {
	seeds(f, true)
	f.Add([]byte(rebuild(8, 1, "K\x02K\x02", "K\x03K\x02")))
	f.Add([]byte("\x80\x04]\x94(K\x01\x88U\x01xh\x00e."))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := unpickle(string(b)); err == nil {
			walk(t, v, 0)
		}
	})
}

// FuzzRead reads archives of any bytes.
func FuzzRead(f *testing.F) {
	seeds(f, false)
	f.Add(pack(f, false, "a/data.pkl", "\x80\x02N."))
	f.Add(pack(f, true, "a/data.pkl", "\x80\x02]q\x00."))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := readBytes(b); err == nil {
			walk(t, v, 0)
		}
	})
}

// FuzzEntries reads whole archives with a pickle and a storage of any bytes, which FuzzRead hardly finds checksums for.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("\x80\x02N."), []byte{}, "little")
	f.Add([]byte(rebuild(8, 1, "K\x02K\x02", "K\x03K\x02")), make([]byte, 32), "little")
	f.Add([]byte(rebuild(8, 0, "K\x02", "K\x01")), make([]byte, 31), "big")
	f.Fuzz(func(t *testing.T, pickle, storage []byte, order string) {
		b := pack(t, false, "a/data.pkl", string(pickle), "a/data/0", string(storage), "a/byteorder", order)
		if v, err := readBytes(b); err == nil {
			walk(t, v, 0)
		}
	})
}
