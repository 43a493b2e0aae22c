package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// inChunks feeds a sequence, "input" (B, L, …), in chunks, with lengths in the first chunk or in that where the first
// sample ends, and takes a snapshot and goes on with it in another stream every now and then.
func inChunks(t *testing.T, m *runtime.Model, in data, batch, chunk int, lengthsFirst bool, rng *rand.Rand) *tensor.Tensor {
	t.Helper()
	s := stream(t, m, batch)
	x := in["input"].(*tensor.Tensor)
	length, timing := x.Dim(1), s.Timing()
	if timing.Flush > 0 { // what stands behind the end must not matter
		shape := append([]int{}, x.Shape()...)
		shape[1] += int(timing.Flush)
		long := noise(1, shape...)
		paste(long, x, 0)
		x = long
	}
	follows := timing.Outputs[0].Kind == stepgraph.Sequence
	var joined *tensor.Tensor
	for lo := 0; lo < x.Dim(1); lo += chunk {
		hi := min(lo+chunk, x.Dim(1))
		part, out := data{"input": cut(x, lo, hi)}, data{}
		if n, ok := in["lengths"].(*tensor.Tensor); ok {
			if ends := int(slices.Min(tensor.Data[int64](n))); lengthsFirst && lo == 0 ||
				!lengthsFirst && lo < ends && ends <= hi {
				part["lengths"] = n
			}
		}
		if timing.End != "" && hi >= length {
			part[timing.End] = tensor.FromSlice(slices.Repeat([]int64{int64(length)}, x.Dim(0)), x.Dim(0))
		}
		if err := s.Step(context.Background(), part, out); err != nil {
			t.Fatalf("steps %d to %d: %v", lo, hi, err)
		}
		y := out["output"].(*tensor.Tensor)
		if follows && joined == nil {
			joined = tensor.New(y.DType(), y.Dim(0), x.Dim(1), y.Dim(2))
		}
		if follows {
			paste(joined, y, lo)
		} else {
			joined = y
		}
		if rng.IntN(8) == 0 {
			b, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			s = stream(t, m, batch)
			if err := s.Restore(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if follows {
		delay := int(timing.Outputs[0].Delay)
		joined = cut(joined, delay, delay+length)
	}
	return joined
}

// sample makes an input for a configuration: numbers, or tokens.
func sample(c *essm.Config, rng *rand.Rand, batch, length int) data {
	in := data{}
	if c.Encoder.Type == "embedding" {
		x := tensor.New(tensor.Int64, batch, length)
		for i := range tensor.Data[int64](x) {
			tensor.Data[int64](x)[i] = rng.Int64N(int64(c.Encoder.VocabSize))
		}
		in["input"] = x
	} else {
		width := c.DModel
		if c.Encoder.Type == "linear" {
			width = c.Encoder.DInput
		}
		in["input"] = noise(rng.Uint32(), batch, length, width)
	}
	if c.Decoder.UseLengths {
		n := tensor.New(tensor.Int64, batch)
		for i := range tensor.Data[int64](n) {
			tensor.Data[int64](n)[i] = 1 + rng.Int64N(int64(length))
		}
		in["lengths"] = n
	}
	return in
}

// Every preset made causal, and random models: whole sequence = chunks = snapshots.
func TestStreamModels(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	all := map[string]*essm.Config{}
	for _, p := range essm.Presets() {
		if strings.HasPrefix(p.ID, "path") || p.ID == "psmnist" { // as large as image and smnist, and like them
			continue
		}
		all[p.ID] = p.Config
	}
	for i := range 20 {
		c := small(pick(essm.Modes...))
		c.NLayers, c.Prenorm, c.Norm = 1+rng.IntN(2), rng.IntN(2) == 0, pick("batch", "layer", "layer_scalar", "none")
		c.Layer.ConjSym, c.Layer.Channels = rng.IntN(2) == 0, 1+rng.IntN(2)
		c.Layer.D, c.Layer.MaxKernelLength = pick("none", "diagonal", "full"), []int{0, 0, 5}[rng.IntN(3)]
		c.Layer.Activation, c.Layer.PostActivation = pick("", "gelu", "half_glu2"), pick("", "full_glu", "relu")
		c.Decoder.UseLengths = c.Decoder.Mode != "none" && rng.IntN(2) == 0
		c.Layer.Bidirectional = c.Layer.MaxKernelLength > 0 && i%2 == 0
		all[fmt.Sprintf("random %d: %s", i, c.Settings().JSON())] = c
	}
	for id, c := range all {
		c.Layer.Bidirectional = c.Layer.Bidirectional && c.Layer.MaxKernelLength > 0 // looks ahead by that much
		const length = 70
		batch, symbol := 2, 2
		if c.Decoder.Type == "retrieval" {
			symbol = 1 // a pair
		}
		m := model(t, network(t, c), runtime.Options{Backend: cpu.New()})
		in := sample(c, rng, batch, length)
		out, err := m.NewSession().Run(context.Background(), in)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		want := out["output"].(*tensor.Tensor)
		for _, chunk := range []int{1, 7, 64, 1000} {
			got := inChunks(t, m, in, symbol, chunk, chunk != 7, rng)
			if d := apart(t, want, got); !(d <= 1e-5) {
				t.Errorf("%s, chunks of %d: %.2g apart", id, chunk, d)
			}
		}
		m.Close()
	}
}

// The causal reference cases step by step: as near to the truth as at once. The others are refused.
func TestStreamReference(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference"), "*", "output64.npy"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no reference cases: %v", err)
	}
	rng, streams := rand.New(rand.NewPCG(7, 8)), 0
	for _, file := range dirs {
		dir := filepath.Dir(file)
		array := func(name string) *tensor.Tensor {
			a, err := arrays.Read(filepath.Join(dir, name))
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil {
				t.Fatal(err)
			}
			return a.Tensor
		}
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := essm.ParseConfig(text, dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.ReadFile(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(c, models.Weights(f.Tensors), models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := passes.Optimize(g); err != nil {
			t.Fatal(err)
		}
		m := model(t, g, runtime.Options{Backend: cpu.New()})
		if c.Layer.Bidirectional && c.Layer.MaxKernelLength == 0 || c.Norm == "instance" {
			if _, err := m.NewStream(1); !errors.Is(err, runtime.ErrStream) ||
				c.Layer.Bidirectional && !strings.Contains(err.Error(), "layers.0") {
				t.Errorf("%s: %v", dir, err)
			}
			continue
		}
		streams++
		in := data{"input": array("input.npy")}
		if n := array("lengths.npy"); n != nil {
			in["lengths"] = n
		}
		truth, err := array("output64.npy").Float64s()
		if err != nil {
			t.Fatal(err)
		}
		size := 0.0
		for _, v := range truth {
			size = max(size, math.Abs(v))
		}
		off := func(x *tensor.Tensor) (worst float64) {
			for i, v := range tensor.Data[float32](x) {
				worst = max(worst, math.Abs(float64(v)-truth[i])/size)
			}
			return worst
		}
		batch := in["input"].(*tensor.Tensor).Dim(0)
		if c.Decoder.Type == "retrieval" {
			batch /= 2
		}
		for _, chunk := range []int{1, 7, 64, 1000} {
			got := inChunks(t, m, in, batch, chunk, chunk != 7, rng)
			if e := off(got); !(e <= max(1e-5, off(array("output.npy")))) {
				t.Errorf("%s, chunks of %d: %.2g from the truth, PyTorch %.2g", dir, chunk, e, off(array("output.npy")))
			}
		}
	}
	t.Logf("%d of %d cases are streams", streams, len(dirs))
}
