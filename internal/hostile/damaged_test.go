package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// A form of files, and the door that reads it.
type form struct {
	name, file string // the file of a sound one, below this folder or made
	content    []byte
	read       func(path string) error
}

// damage lists changed copies of a file: cut off, with bits flipped, with numbers replaced by extreme ones, and with
// parts taken out or repeated. Places are up to 97 spread over the file.
func damage(b []byte, visit func(how string, b []byte)) {
	stride := max(1, len(b)/97)
	for at := 0; at < len(b); at += stride {
		visit(fmt.Sprintf("cut at %d", at), b[:at])
		c := slices.Clone(b)
		c[at] ^= 1 << (at % 8)
		visit(fmt.Sprintf("bit %d of byte %d", at%8, at), c)
		for _, x := range []uint64{math.MaxUint64, 1 << 62, 1 << 31, 0} {
			c := slices.Clone(b)
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], x)
			copy(c[at:], word[:])
			visit(fmt.Sprintf("%#x at %d", x, at), c)
		}
		end := min(len(b), at+2*stride)
		visit(fmt.Sprintf("without %d to %d", at, end), slices.Concat(b[:at], b[end:]))
		visit(fmt.Sprintf("%d to %d many times", at, end), slices.Concat(b[:at], bytes.Repeat(b[at:end], 50), b[end:]))
	}
	visit("twice", slices.Concat(b, b))
	visit("long", slices.Concat(b, make([]byte, 1<<20)))
}

// openAndRun opens a model and runs it, as a service would.
func openAndRun(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	m, err := open.Load(path, options(ctx, cpu.New()))
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = run(m)
	return err
}

func forms(t *testing.T) []form {
	t.Helper()
	corpus := filepath.Join("..", "..", "cmd", "essmc", "command", "testdata", "corpus", "v1")
	torch := filepath.Join("..", "..", "frontend", "checkpoint", "torchfile", "testdata")
	folder := func(changed string) func(string) error { // reads a model directory in which a file was changed
		return func(path string) error {
			dir := filepath.Dir(path)
			other := map[string]string{"config.json": "model.safetensors", "model.safetensors": "config.json"}[changed]
			b, err := os.ReadFile(filepath.Join(corpus, "window", other))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, other), b, 0o666); err != nil {
				return err
			}
			return openAndRun(dir)
		}
	}
	array := func(path string) error { _, err := arrays.Read(path); return err }
	pickle := func(path string) error { _, _, _, err := checkpoint.ReadTorch(path, checkpoint.Options{}); return err }
	all := []form{
		{name: "plan", file: filepath.Join(corpus, "window.essm"), read: openAndRun},
		{name: "plan of waves", file: filepath.Join(corpus, "waves.essm"), read: openAndRun},
		{name: "ONNX", file: filepath.Join(corpus, "window.onnx"), read: openAndRun},
		{name: "ONNX with functions", file: filepath.Join(corpus, "waves-functions.onnx"), read: openAndRun},
		{name: "configuration", file: filepath.Join(corpus, "window", "config.json"), read: folder("config.json")},
		{name: "safetensors", file: filepath.Join(corpus, "window", "model.safetensors"), read: folder("model.safetensors")},
		{name: "checkpoint", file: filepath.Join(torch, "state_dict.pt"), read: pickle},
		{name: "checkpoint with a configuration", file: filepath.Join(torch, "omegaconf.ckpt"), read: pickle},
		{name: "text", content: []byte(`<ir_version: 10, opset_import: ["" : 24]>
g (float[N,4] x, string[N] s) => (y, z) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64 m = {3}> {
	h = MatMul (x, w)
	y = Loop (m, "", h) <body: graph = step (int64 t, bool c, float[N,2] p) => (bool d, float[N,2] q) {
		d = Identity (c)
		[label @ "layers.0"] q = Tanh (p)
	}>
	z = StringConcat (s, s)
}`), read: openAndRun},
	}
	x := tensor.New(tensor.Float32, 7, 3)
	for i := range x.Len() {
		tensor.Data[float32](x)[i] = float32(i) / 8
	}
	made := t.TempDir()
	for _, end := range []string{"npy", "npz", "csv"} {
		path := filepath.Join(made, "x."+end)
		if err := arrays.Write(path, x); err != nil {
			t.Fatal(err)
		}
		all = append(all, form{name: end, file: path, read: array})
	}
	all = append(all, form{name: "wav", content: wav(64), read: array})
	all = append(all, snapshots(t, corpus))
	for i, f := range all {
		if f.content == nil {
			b, err := os.ReadFile(f.file)
			if err != nil {
				t.Fatal(err)
			}
			all[i].content = b
		}
		if f.file == "" {
			all[i].file = "file." + f.name
		}
	}
	return all
}

// snapshots is the form of streams' states.
func snapshots(t *testing.T, corpus string) form {
	t.Helper()
	m, err := open.Load(filepath.Join(corpus, "window.essm"), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewStream(1)
	if err != nil {
		t.Fatal(err)
	}
	in, err := inputs(s.Inputs(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Step(context.Background(), in, map[string]tensor.Datum{}); err != nil {
		t.Fatal(err)
	}
	b, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return form{name: "snapshot", content: b, read: func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return s.Restore(b)
	}}
}

// wav returns a recording of so many samples of 16 bits.
func wav(samples int) []byte {
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data")
	b = binary.LittleEndian.AppendUint32(b, uint32(2*samples))
	for i := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(i*517))
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

// TestDamaged reads damaged files of all forms. Each is refused in a line, or read, within bounds of memory and
// processor time; where it is a model, it is run.
func TestDamaged(t *testing.T) {
	const mostBytes, mostTime = 64<<20 + memory, 500 * time.Millisecond
	count, read := 0, 0
	var worst struct {
		bytes       int64
		time        time.Duration
		most, slows string
	}
	for _, f := range forms(t) {
		t.Run(f.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), filepath.Base(f.file))
			if err := os.WriteFile(path, f.content, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := f.read(path); err != nil && !strings.HasPrefix(f.name, "checkpoint") {
				t.Fatalf("the sound one: %v", err)
			}
			damage(f.content, func(how string, b []byte) {
				if err := os.WriteFile(path, b, 0o666); err != nil {
					t.Fatal(err)
				}
				var before, after goruntime.MemStats
				goruntime.ReadMemStats(&before)
				start := worktime.Now()
				err := f.read(path)
				took := worktime.Now() - start
				goruntime.ReadMemStats(&after)
				used := int64(after.TotalAlloc - before.TotalAlloc)
				if count++; err == nil {
					read++
				} else if e := err.Error(); strings.Contains(e, runtime.ErrInternal.Error()) || len(e) > 2000 || strings.Contains(e, "\n") {
					t.Errorf("%s: %.3000s", how, e)
				}
				if used > mostBytes+4*int64(len(b)) {
					t.Errorf("%s: %d bytes allocated: %v", how, used, err)
				}
				if took > mostTime {
					t.Errorf("%s: %v of processor time: %v", how, took, err)
				}
				if used > worst.bytes {
					worst.bytes, worst.most = used, f.name+", "+how
				}
				if took > worst.time {
					worst.time, worst.slows = took, f.name+", "+how
				}
			})
		})
	}
	t.Logf("figure: %d files, %d of them still readable; most bytes allocated %d KiB (%s); most processor time %v (%s)",
		count, read, worst.bytes>>10, worst.most, worst.time, worst.slows)
}
