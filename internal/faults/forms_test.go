package faults_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/checkpoint/flaxfile"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// config is that of a version of a small model. All versions have the same tensors.
func config(version int) *essm.Config {
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 2}
	c.DModel, c.NLayers, c.Prenorm, c.Norm = 8, 2, true, "batch"
	c.Layer.Bidirectional = false
	c.Layer.Heads, c.Layer.DState, c.Layer.Dt, c.Layer.D = 2, 8, "per_state", "diagonal"
	c.Layer.PostActivation = "half_glu1"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: []string{"", "pool", "last"}[version], DOutput: 3}
	return c
}

// weights are those of one of its versions.
func weights(t testing.TB, version int) models.Weights {
	t.Helper()
	w, err := essm.Init(config(version), essm.InitOptions{}, uint64(version))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// network is the graph of a version.
func network(t testing.TB, version int) *ir.Graph {
	t.Helper()
	g, err := models.Build(config(version), weights(t, version), models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// standard is a graph of ONNX's operators.
func standard(t testing.TB, version int) *ir.Graph { return product(t, version, 32) }

// product returns a graph of a product with a matrix of some size.
func product(t testing.TB, version, n int) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("main", ops.Default, map[string]int{"": 21})
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", n))
	k := make([]float32, n*n)
	for i := range k {
		k[i] = float32(i * version)
	}
	w, bias := b.Const("w", tensor.FromSlice(k, n, n)), b.Const("b", tensor.FromSlice(k[:n], n))
	y := b.Op("", "Relu", []*ir.Value{b.Op("", "Add", []*ir.Value{b.Op("", "MatMul", []*ir.Value{x, w}), bias})})
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// form is a form of files: of models, weights, arrays, or states.
type form struct {
	name string
	file string // or folder, in the folder of the test
	// write writes a version, 1 or 2. It is nil if the project does not write the form.
	write func(t testing.TB, path string, version int) error
	// make writes it without the project's writers, where write is nil.
	make func(t testing.TB, path string, version int)
	// read returns the content as bytes that differ between versions.
	read func(path string) (string, error)
	// several is set if the form has several files, which are written one after the other.
	several bool
	// set is set if for the time of some renames there is neither the old content nor the new one.
	set bool
}

// put is a form's first content.
func (f form) put(t testing.TB, path string, version int) {
	t.Helper()
	if f.make != nil {
		f.make(t, path, version)
		return
	}
	if err := f.write(t, path, version); err != nil {
		t.Fatal(err)
	}
}

// folder is the content of a folder: that of files by path; folders in it have none.
type folder map[string]string

// room returns a folder for the test: in memory where there is such a place, since the writers sync.
func room(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "faults")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// load returns the content of a folder.
func load(t testing.TB, dir string) folder {
	t.Helper()
	all := folder{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.IsDir() {
			all[path] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		all[path] = "= " + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// store makes the folder hold this content. It is faster than the writers, which sync.
func (all folder) store(t testing.TB, dir string) {
	t.Helper()
	for path := range load(t, dir) {
		if _, ok := all[path]; !ok {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, path := range sorted(all) {
		content, ok := strings.CutPrefix(all[path], "= ")
		if !ok {
			if err := os.MkdirAll(path, 0o777); err != nil {
				t.Fatal(err)
			}
			continue
		}
		store(t, path, []byte(content))
	}
}

func digest(g *ir.Graph, err error) (string, error) {
	if err != nil {
		return "", err
	}
	h := sha256.New()
	bare := *g
	bare.Meta = nil
	err = plan.Write(h, &bare)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

func source(path string) (string, error) {
	m, err := open.File(path, open.Options{})
	if err != nil {
		return "", err
	}
	return digest(m.Source())
}

func tensors(all map[string]*tensor.Tensor, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	for _, name := range sorted(all) {
		fmt.Fprintf(&b, "%s %s %x\n", name, all[name], all[name].Bytes())
	}
	return b.String(), nil
}

func sorted[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

func array(path string) (string, error) {
	a, err := arrays.Read(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %x", a.Tensor, a.Tensor.Bytes()), nil
}

// numbers are those of a version's array, of one row, in float64.
func numbers(version int) *tensor.Tensor {
	x := make([]float64, 500)
	for i := range x {
		x[i] = math.Sin(float64(i * version))
	}
	return tensor.FromSlice(x, 100, 5)
}

func writeArray(t testing.TB, path string, version int) error {
	return arrays.Write(path, numbers(version))
}

// forms is everything that is read and written, but for what only the command reads.
var forms = []form{
	{name: "plan", file: "m.essm",
		write: func(t testing.TB, path string, version int) error { return plan.WriteFile(path, network(t, version)) },
		read: func(path string) (string, error) {
			f, err := plan.Open(path, ops.Default, plan.Options{})
			if err != nil {
				return "", err
			}
			defer f.Close()
			return digest(f.Graph(), nil)
		}},
	{name: "plan, copied", file: "m.essm",
		write: func(t testing.TB, path string, version int) error { return plan.WriteFile(path, network(t, version)) },
		read:  func(path string) (string, error) { return digest(plan.ReadFile(path, ops.Default, plan.Limits{})) }},
	{name: "plan of a service", file: "m.essm",
		write: func(t testing.TB, path string, version int) error { return plan.WriteFile(path, network(t, version)) },
		read: func(path string) (string, error) {
			m, err := runtime.Load(path, runtime.Options{Backend: cpu.New(), Threads: 1, Copy: true})
			if err != nil {
				return "", err
			}
			defer m.Close()
			return digest(m.Graph(), nil)
		}},
	{name: "plan of an fs.FS", file: "m.essm",
		write: func(t testing.TB, path string, version int) error { return plan.WriteFile(path, network(t, version)) },
		read: func(path string) (string, error) {
			return served(func(o runtime.Options) (*runtime.Model, error) { return runtime.LoadFS(system{}, path, o) })
		}},
	{name: "plan of an fs.FS without ReadAt", file: "m.essm",
		write: func(t testing.TB, path string, version int) error { return plan.WriteFile(path, network(t, version)) },
		read: func(path string) (string, error) {
			return served(func(o runtime.Options) (*runtime.Model, error) {
				return runtime.LoadFS(system{plain: true}, path, o)
			})
		}},
	{name: "ONNX of an io.Reader", file: "m.onnx", make: makeONNX,
		read: func(path string) (string, error) {
			f, err := files.Open(path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			m, err := open.Reader(f, path, open.Options{})
			if err != nil {
				return "", err
			}
			return digest(m.Source())
		}},
	{name: "ONNX", file: "m.onnx",
		write: func(t testing.TB, path string, version int) error {
			return onnx.WriteFile(path, standard(t, version), onnx.WriteOptions{})
		},
		read: source},
	{name: "ONNX of a service, with lazy weights", file: "m.onnx",
		write: func(t testing.TB, path string, version int) error {
			return onnx.WriteFile(path, product(t, version, 130), onnx.WriteOptions{})
		},
		read: func(path string) (string, error) {
			m, err := open.Load(path, open.Options{Run: runtime.Options{Threads: 1}})
			if err != nil {
				return "", err
			}
			defer m.Close()
			if goruntime.GOOS != "windows" && !slices.ContainsFunc(m.Graph().Constants(), func(v *ir.Value) bool { return v.Const.Lazy() }) {
				return "", errors.New("no weight is lazy")
			}
			return digest(m.Graph(), nil)
		}},
	{name: "ONNX of a service, with external data", file: "m.onnx", several: true,
		write: func(t testing.TB, path string, version int) error {
			return onnx.WriteFile(path, product(t, version, 130), onnx.WriteOptions{External: "w.bin", ExternalFrom: 1000})
		},
		read: func(path string) (string, error) {
			m, err := open.Load(path, open.Options{Run: runtime.Options{Threads: 1}})
			if err != nil {
				return "", err
			}
			defer m.Close()
			return digest(m.Graph(), nil)
		}},
	{name: "ONNX with external data", file: "m.onnx", several: true,
		write: func(t testing.TB, path string, version int) error {
			return onnx.WriteFile(path, standard(t, version), onnx.WriteOptions{External: "w.bin", ExternalFrom: 1000})
		},
		read: source},
	{name: "IR text", file: "m.txt", several: true,
		write: func(t testing.TB, path string, version int) error { return irtext.WriteFile(path, network(t, version)) },
		read:  source},
	{name: "model directory", file: "m", several: true, set: true,
		write: func(t testing.TB, path string, version int) error {
			return checkpoint.WriteDir(path, config(version), weights(t, version))
		},
		read: source},
	{name: "sharded model directory", file: "m", several: true, make: makeShards, read: source},
	{name: "content of parameters", file: "w.safetensors",
		make: func(t testing.TB, path string, version int) {
			if err := safetensors.WriteFile(path, weights(t, version), nil); err != nil {
				t.Fatal(err)
			}
		},
		read: func(path string) (string, error) { return tensors(checkpoint.ReadContent(path, checkpoint.Options{})) }},
	{name: "safetensors", file: "w.safetensors",
		write: func(t testing.TB, path string, version int) error {
			return safetensors.WriteFile(path, weights(t, version), nil)
		},
		read: func(path string) (string, error) {
			f, err := safetensors.ReadFile(path)
			if err != nil {
				return "", err
			}
			return tensors(f.Tensors, nil)
		}},
	{name: "torch file", file: "w.pt", make: makeTorch,
		read: func(path string) (string, error) {
			v, err := torchfile.ReadFile(path)
			if err != nil {
				return "", err
			}
			x := v.(*tensor.Tensor)
			return fmt.Sprintf("%s %x", x, x.Bytes()), nil
		}},
	{name: "checkpoint with a configuration in YAML", file: "m", several: true, read: converted("w.yaml"),
		make: func(t testing.TB, path string, version int) { makeCheckpoint(t, path, "w.yaml", version) }},
	{name: "checkpoint with a configuration in JSON", file: "m", several: true, read: converted("w.json"),
		make: func(t testing.TB, path string, version int) { makeCheckpoint(t, path, "w.json", version) }},
	{name: "flax file", file: "checkpoint_1", make: makeFlax,
		read: func(path string) (string, error) {
			v, err := flaxfile.ReadFile(path)
			if err != nil {
				return "", err
			}
			x, err := v.(map[string]any)["x"].(flaxfile.Array).Tensor(func() {})
			return fmt.Sprintf("%s %x", x, x.Bytes()), err
		}},
	{name: "npy", file: "x.npy", write: writeArray, read: array},
	{name: "npz", file: "x.npz", write: writeArray, read: array},
	{name: "csv", file: "x.csv", write: writeArray, read: array},
	{name: "csv of one column", file: "x.csv", read: array,
		write: func(t testing.TB, path string, version int) error {
			x := tensor.Data[float64](numbers(version))
			return arrays.Write(path, tensor.FromSlice(x, len(x), 1))
		}},
	{name: "wav", file: "x.wav", make: makeWav, read: array},
	{name: "rate of a wav", file: "x.wav", make: makeWav,
		read: func(path string) (string, error) { n, err := arrays.WavRate(path); return fmt.Sprint(n), err }},
}

// served returns the content of a plan that is loaded.
func served(load func(o runtime.Options) (*runtime.Model, error)) (string, error) {
	m, err := load(runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		return "", err
	}
	defer m.Close()
	return digest(m.Graph(), nil)
}

// system is the files of the system as an fs.FS, with or without ReadAt.
type system struct{ plain bool }

func (s system) Open(name string) (fs.File, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	if s.plain {
		return struct{ fs.File }{f}, nil
	}
	return f, nil
}

func makeONNX(t testing.TB, path string, version int) {
	t.Helper()
	if err := onnx.WriteFile(path, standard(t, version), onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// makeShards writes a model directory with a file for each tensor.
func makeShards(t testing.TB, path string, version int) {
	t.Helper()
	w := weights(t, version)
	if err := checkpoint.WriteDir(path, config(version), w); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, safetensors.SingleName)); err != nil {
		t.Fatal(err)
	}
	index := map[string]string{}
	half := map[string]map[string]*tensor.Tensor{"a.safetensors": {}, "b.safetensors": {}}
	for i, name := range sorted(w) {
		shard := []string{"a.safetensors", "b.safetensors"}[i%2]
		index[name], half[shard][name] = shard, w[name]
	}
	for shard, all := range half {
		if err := safetensors.WriteFile(filepath.Join(path, shard), all, nil); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	store(t, filepath.Join(path, safetensors.IndexName), b)
}

func store(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// makeTorch writes a tensor as torch.save does.
func makeFlax(t testing.TB, path string, version int) {
	t.Helper()
	x := numbers(version)
	a := append([]byte{0x93, 0x91, 0xcd, byte(x.Len() >> 8), byte(x.Len())}, "\xa7float64\xc5"...)
	a = append(binary.BigEndian.AppendUint16(a, uint16(len(x.Bytes()))), x.Bytes()...)
	b := binary.BigEndian.AppendUint16([]byte("\x81\xa1x\xc8"), uint16(len(a)))
	store(t, path, append(append(b, 1), a...))
}

func makeTorch(t testing.TB, path string, version int) {
	t.Helper()
	const pickle = "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n" +
		"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\xc8tQK\x00(K\xc8t(K\x01t\x89)tR."
	var data []byte
	for i := range 200 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i*version)))
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, part := range []struct{ name, content string }{{"w/data.pkl", pickle}, {"w/data/0", string(data)}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: part.name})
		if err == nil {
			_, err = w.Write([]byte(part.content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	store(t, path, b.Bytes())
}

// makeCheckpoint writes a folder with a state dict of the authors' code and its configuration. Versions differ in the latter.
func makeCheckpoint(t testing.TB, path, config string, version int) {
	t.Helper()
	from := filepath.Join("..", "..", "frontend", "checkpoint", "testdata", "options-concat-retrieval")
	weights, err := os.ReadFile(from + ".pt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(from + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("max_real_Lambda: 0.0001"), fmt.Appendf(nil, "max_real_Lambda: 0.000%d", version), 1)
	if filepath.Ext(config) == ".json" {
		if text, err = yaml.YAMLToJSON(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		t.Fatal(err)
	}
	store(t, filepath.Join(path, "w.pt"), weights)
	store(t, filepath.Join(path, config), text)
}

// converted reads such a folder.
func converted(config string) func(path string) (string, error) {
	return func(path string) (string, error) {
		c, w, _, err := checkpoint.Convert(filepath.Join(path, "w.pt"), checkpoint.Options{Config: filepath.Join(path, config)})
		if err != nil {
			return "", err
		}
		text, err := tensors(w, nil)
		return string(c.Settings().JSON()) + text, err
	}
}

// makeWav writes a recording of 16 bits.
func makeWav(t testing.TB, path string, version int) {
	t.Helper()
	var data []byte
	for i := range 3000 {
		data = binary.LittleEndian.AppendUint16(data, uint16(i*version))
	}
	f := binary.LittleEndian.AppendUint32([]byte("WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), uint32(8000*version))
	f = binary.LittleEndian.AppendUint32(f, uint32(16000*version))
	f = append(f, "\x02\x00\x10\x00data"...)
	f = append(binary.LittleEndian.AppendUint32(f, uint32(len(data))), data...)
	store(t, path, append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(f))), f...))
}
