// Package checkpoint reads and writes model directories (docs/math.md, Model directory), and converts the checkpoints
// of the authors' released code: a Lightning .ckpt, or a bare state dict with the configuration beside it; and those of
// S5 and LRU, which flax writes.
//
// It imports models, ops/essm (for the names of methods), ir/tensor, the formats below it, internal/atomicfile,
// internal/lfs, internal/spell and goccy/go-yaml. Every model that it returns is complete: models.Check accepts it, and
// all tensors are float32 and finite. Dropping a setting that could change a model's answers is an error.
package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
	_ "github.com/essmc/essmc/models/families" // which ParseConfig knows
)

// ConfigName is the file name of the configuration in a model directory.
const ConfigName = "config.json"

// ReadDir reads a model directory: config.json, and model.safetensors or the shards that its index names, or, without
// these, pytorch_model.bin or its shards. float16 and bfloat16 are widened to float32.
func ReadDir(dir string) (models.Config, models.Weights, error) {
	c, w, _, err := ReadDirWith(dir, Options{})
	return c, w, err
}

// ReadDirWith is like ReadDir, with options. The notes say what was left out.
func ReadDirWith(dir string, o Options) (c models.Config, w models.Weights, notes []string, err error) {
	if err := o.check(); err != nil {
		return nil, nil, nil, err
	}
	path := o.Config
	if path == "" {
		path = filepath.Join(dir, ConfigName)
	}
	data, err := readSmall(path, config.MaxSize)
	if err != nil {
		return nil, nil, nil, err
	}
	if c, err = models.ParseConfig(data, path); err != nil {
		return nil, nil, nil, err
	}
	tensors, err := readTensors(dir, o)
	if err != nil {
		return nil, nil, nil, err
	}
	if tensors, notes, err = renamed(o, tensors); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	if w, err = o.weights(dir, c, tensors); err != nil {
		return nil, nil, nil, err
	}
	return c, w, notes, nil
}

// weights converts a checkpoint's tensors to a model's weights, and checks them.
func weights(watch *ends.Watch, c models.Config, tensors map[string]*tensor.Tensor) (models.Weights, error) {
	tensors, err := foldWeightNorm(watch, tensors)
	if err != nil {
		return nil, err
	}
	specs, err := c.Specs(tensors)
	if err != nil {
		return nil, err
	}
	settings := map[string]bool{} // tensors of int64, which checkpoints may hold as int32
	for _, s := range specs {
		if s.Int {
			settings[s.Name] = true
		}
	}
	w := models.Weights{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		if strings.HasSuffix(name, ".num_batches_tracked") { // batch norms count training steps
			continue
		}
		wide := t.DType()
		switch {
		case wide == tensor.Float16 || wide == tensor.BFloat16:
			wide = tensor.Float32
		case wide == tensor.Int32 && settings[name]:
			wide = tensor.Int64
		}
		if wide != t.DType() {
			if t, err = converted(watch, t, wide); err != nil {
				return nil, fmt.Errorf("tensor %s: %w", name, err)
			}
		}
		w[name] = t
	}
	if err := models.CheckContext(watch.Context(), c, w); err != nil {
		return nil, err
	}
	return w, nil
}

// converted is t.Convert in parts, for types of whole bytes.
func converted(w *ends.Watch, t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	const part = 1 << 16
	if w == nil || t.DType() == d || t.Len() <= part || t.DType() == tensor.String || t.DType().Bits() < 8 ||
		d.Bits() < 8 {
		return t.Convert(d, false)
	}
	out := tensor.NewParts(w.Check, d, t.Shape()...)
	src, from, to := t.Bytes(), t.DType().Bits()/8, d.Bits()/8
	for at := 0; at < t.Len(); at += part {
		w.Check()
		end := min(at+part, t.Len())
		x, err := tensor.FromBytes(t.DType(), []int{end - at}, src[at*from:end*from])
		if err != nil {
			return nil, err
		}
		if x, err = x.Convert(d, false); err != nil {
			return nil, err
		}
		copy(out.Bytes()[at*to:], x.Bytes())
	}
	return out, nil
}

// WriteDir writes a model directory. It creates the directory if it does not exist, and replaces a model that WriteDir
// wrote before, or was writing when its process ended. It refuses a directory that holds anything else. After an error,
// the old model is there. The directory never holds the weights of one model with the configuration of another.
func WriteDir(dir string, c models.Config, w models.Weights) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := models.Check(c, w); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := checkTarget(dir); err != nil {
		return err
	}
	_, missing := files.Stat(dir)
	if err := files.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	file := filepath.Join(dir, ConfigName)
	text := c.Settings().JSON()
	weights := atomicfile.Part{Path: filepath.Join(dir, safetensors.SingleName), Fill: func(f io.Writer) error {
		return safetensors.Write(f, w, map[string]string{"format": "pt"}) // loaders of model hubs need the metadata
	}}
	if old, err := readSmall(file, config.MaxSize); err == nil && bytes.Equal(old, text) {
		return atomicfile.Write(weights.Path, weights.Fill)
	}
	// The configuration is the last part, since it makes the folder a model.
	err := atomicfile.WriteSet(weights, atomicfile.Part{Path: file, Fill: func(f io.Writer) error {
		_, err := f.Write(text)
		return err
	}})
	if err != nil && errors.Is(missing, fs.ErrNotExist) {
		_ = files.Remove(dir) // if it is empty
	}
	return err
}

// checkTarget refuses directories that WriteDir would mix with something else.
func checkTarget(dir string) error {
	entries, err := files.ReadDir(dir)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return atomicfile.Temporary(e.Name()) })
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == safetensors.IndexName {
			return fmt.Errorf("%s: holds a sharded model; write to another folder", dir)
		}
	}
	path := filepath.Join(dir, ConfigName)
	data, err := readSmall(path, config.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		if atomicfile.Interrupted(path) {
			return nil
		}
		return fmt.Errorf("%s: is not empty and holds no model (no %s); write to another folder", dir, ConfigName)
	}
	if err != nil {
		return err
	}
	if _, err := models.ParseConfig(data, path); err != nil {
		return fmt.Errorf("%w; write to another folder", err)
	}
	return nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	if err := lfs.Check(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}
