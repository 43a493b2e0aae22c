package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint/flaxfile"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// ArgsName is the file of a command line's options, as JSON, beside a checkpoint of flax.
const ArgsName = "args.json"

// Convert converts a checkpoint: a file of torch (ReadTorch); one of flax, or a folder with such files (ReadFlax); or
// the weights in a .safetensors file, with the configuration in o.Config. With o.Prefix it also reads a model
// directory, whose names begin with the prefix.
func Convert(path string, o Options) (c models.Config, w models.Weights, notes []string, err error) {
	if err := errors.Join(o.check(), o.ended(path)); err != nil {
		return nil, nil, nil, err
	}
	st, err := files.Stat(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if st.IsDir() {
		if _, err := files.Stat(filepath.Join(path, ConfigName)); err == nil && o.Prefix != "" {
			return ReadDirWith(path, o)
		}
		return ReadFlax(path, o)
	}
	f, err := files.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if dir := modelOf(path); dir != "" && o.Config == "" {
		f.Close()
		if o.Prefix != "" {
			return ReadDirWith(dir, o)
		}
		return nil, nil, nil, fmt.Errorf("%s: is part of the model directory %s, which needs no conversion; try "+
			"essmc inspect %s",
			path, dir, dir)
	}
	head := make([]byte, 1)
	n, err := io.ReadFull(f, head)
	f.Close()
	switch {
	case strings.EqualFold(filepath.Ext(path), ".safetensors"):
		return readSafetensors(path, o)
	case err == nil && flaxfile.Is(head[:n]):
		return ReadFlax(path, o)
	}
	return ReadTorch(path, o)
}

// readSafetensors reads weights without a config.json beside them.
func readSafetensors(path string, o Options) (c models.Config, w models.Weights, notes []string, err error) {
	if o.Config == "" {
		return nil, nil, nil, fmt.Errorf("%s: has no %s beside it; give the model's configuration as a file "+
			"(--config config.json)",
			path, ConfigName)
	}
	_, c, err = configFile(o.Config)
	if err == nil && c == nil {
		err = fmt.Errorf("%s: expected a config.json with model_type, found none", o.Config)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := files.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	r, size, err := (&files.Budget{Limit: o.Bytes, Context: o.Context}).Regular(f, path)
	if err != nil {
		return nil, nil, nil, err
	}
	file, err := safetensors.Read(r, size, path)
	if err != nil {
		return nil, nil, nil, err
	}
	tensors, notes, err := renamed(o, file.Tensors)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if w, err = o.weights(path, c, tensors); err != nil {
		return nil, nil, nil, err
	}
	return c, w, notes, nil
}

// modelOf returns the model directory of which the file is the weights; "": of none.
func modelOf(path string) string {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir = filepath.Clean(dir); name != torchName && name != safetensors.SingleName {
		return ""
	}
	if _, err := files.Stat(filepath.Join(dir, ConfigName)); err != nil {
		return ""
	}
	return dir
}

// ReadFlax converts a checkpoint that flax wrote in msgpack, or the latest one in a folder (checkpoint_N). Families
// recognize theirs (models.Family.Flax). The configuration is the options of the released code's command line, in the
// file at o.Config or else in args.json beside the checkpoint, completed by the family; a config.json as in a model
// directory is right, too. The notes, in alphabetical order, list the defaults that were used.
func ReadFlax(path string, o Options) (c models.Config, w models.Weights, notes []string, err error) {
	defer ends.Catch(path, &err)
	if path, err = flaxPath(path); err != nil {
		return nil, nil, nil, err
	}
	if o.Prefix != "" {
		return nil, nil, nil, fmt.Errorf("%s: is a checkpoint of flax, whose names need no prefix; leave out --prefix",
			path)
	}
	if st, err := files.Stat(path); err == nil && o.Bytes > 0 && st.Size() > o.Bytes {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, &files.LimitError{Size: st.Size(), Limit: o.Bytes})
	}
	v, err := flaxfile.ReadFileContext(o.Context, path)
	if err != nil {
		return nil, nil, nil, err
	}
	tensors, err := flaxTensors(ends.Of(o.Context), v)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := o.ended(path); err != nil {
		return nil, nil, nil, err
	}
	source := o.Config
	if source == "" {
		source = filepath.Join(filepath.Dir(path), ArgsName)
	}
	data, err := readSmall(source, config.MaxSize)
	if o.Config == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, fmt.Errorf("%s: has no %s beside it; give the options of the command line that trained "+
			"it as JSON (--config FILE.json)", path, ArgsName)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	options, err := config.Parse(data)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", source, err)
	}
	if notes, err = models.CompleteFlax(options, tensors); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if c, err = models.ConfigOf(options, source); err != nil {
		return nil, nil, nil, err
	}
	if w, err = o.weights(path, c, tensors); err != nil {
		return nil, nil, nil, err
	}
	slices.Sort(notes)
	return c, w, notes, nil
}

// orbax are files by which folders of orbax are known.
var orbax = []string{"_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt", "_sharding"}

// flaxPath returns the file of a checkpoint: path itself, or the latest one in that folder.
func flaxPath(path string) (string, error) {
	st, err := files.Stat(path)
	if err != nil || !st.IsDir() {
		return path, err
	}
	entries, err := files.ReadDir(path)
	if err != nil {
		return "", err
	}
	latest, best := "", -1
	for _, e := range entries {
		name := e.Name()
		number, ok := strings.CutPrefix(name, "checkpoint_")
		step, err := strconv.Atoi(number)
		switch {
		case slices.Contains(orbax, name):
			return "", fmt.Errorf("%s: is a folder of orbax, which is not read; write its tree as one file in Python: "+
				"open(FILE, \"wb\").write(flax.serialization.msgpack_serialize("+
				"orbax.checkpoint.PyTreeCheckpointer().restore(%q)))",
				path, filepath.Base(path))
		case ok && err == nil && step > best:
			latest, best = name, step
		}
	}
	if latest == "" {
		if _, err := files.Stat(filepath.Join(path, ConfigName)); err == nil {
			return "", fmt.Errorf("%s: holds a %s, so it is a model directory, which needs no conversion; try essmc "+
				"inspect %s",
				path, ConfigName, path)
		}
		return "", fmt.Errorf("%s: holds no checkpoint: expected a file .ckpt or .pt of torch, or a folder with "+
			"checkpoint_N of flax",
			path)
	}
	return flaxPath(filepath.Join(path, latest))
}

// flaxTensors returns the tensors of params and batch_stats, by their paths. All else is the optimizer's.
func flaxTensors(w *ends.Watch, v any) (map[string]*tensor.Tensor, error) {
	top, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected a map with params, found %T", v)
	}
	if _, ok := top["params"].(map[string]any); !ok {
		return nil, fmt.Errorf("expected a map with params, found the keys %s", keys(top))
	}
	all := map[string]*tensor.Tensor{}
	for _, part := range []string{"params", "batch_stats"} {
		if top[part] == nil {
			continue
		}
		if err := flatten(w, all, part, top[part]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func keys(m map[string]any) string {
	names := slices.Sorted(maps.Keys(m))
	for i := range names {
		names[i] = config.Shorten(names[i])
	}
	return strings.Join(names[:min(len(names), 8)], ", ")
}

func flatten(w *ends.Watch, all map[string]*tensor.Tensor, path string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for k := range v {
			w.Step(1)
			names = append(names, k)
		}
		slices.SortFunc(names, func(a, b string) int { w.Step(1); return strings.Compare(a, b) })
		for _, k := range names {
			w.Step(4)
			if err := flatten(w, all, path+"."+k, v[k]); err != nil {
				return err
			}
		}
		return nil
	case flaxfile.Array:
		t, err := v.Tensor(w.Check)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", config.Shorten(path), err)
		}
		if all[path] != nil {
			return fmt.Errorf("tensor %s: is there twice", config.Shorten(path))
		}
		all[path] = t
		return nil
	}
	return fmt.Errorf("tensor %s: expected an array, found %T", config.Shorten(path), v)
}
