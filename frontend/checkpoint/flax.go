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

// Convert converts a checkpoint: a file of torch (ReadTorch); one of flax, or a folder with such files (ReadFlax); or the
// weights in a .safetensors file, with the configuration in o.Config. With o.Prefix it also reads a model directory, whose
// names begin with the prefix.
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
		return nil, nil, nil, fmt.Errorf("%s: is part of the model directory %s, which needs no conversion; try essmc inspect %s",
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
		return nil, nil, nil, fmt.Errorf("%s: has no %s beside it; give the model's configuration as a file (--config config.json)",
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

// ReadFlax converts a checkpoint of S5 or LRU that flax wrote in msgpack, or the latest one in a folder (checkpoint_N). The
// configuration is the options of the released code's command line, in the file at o.Config or else in args.json beside
// the checkpoint; a config.json as in a model directory is right, too. Sizes of input and output follow from tensors. The
// notes, in alphabetical order, list the defaults that were used.
func ReadFlax(path string, o Options) (c models.Config, w models.Weights, notes []string, err error) {
	defer ends.Catch(path, &err)
	if path, err = flaxPath(path); err != nil {
		return nil, nil, nil, err
	}
	if o.Prefix != "" {
		return nil, nil, nil, fmt.Errorf("%s: is a checkpoint of flax, whose names need no prefix; leave out --prefix", path)
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
		return nil, nil, nil, fmt.Errorf("%s: has no %s beside it; give the options of the command line that trained it as JSON "+
			"(--config FILE.json)", path, ArgsName)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	options, err := config.Parse(data)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", source, err)
	}
	if notes, err = flaxOptions(options, tensors); err != nil {
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
				"open(FILE, \"wb\").write(flax.serialization.msgpack_serialize(orbax.checkpoint.PyTreeCheckpointer().restore(%q)))",
				path, filepath.Base(path))
		case ok && err == nil && step > best:
			latest, best = name, step
		}
	}
	if latest == "" {
		if _, err := files.Stat(filepath.Join(path, ConfigName)); err == nil {
			return "", fmt.Errorf("%s: holds a %s, so it is a model directory, which needs no conversion; try essmc inspect %s",
				path, ConfigName, path)
		}
		return "", fmt.Errorf("%s: holds no checkpoint: expected a file .ckpt or .pt of torch, or a folder with checkpoint_N of flax",
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

// paddedSets are the data sets whose sequences the released code of S5 pads.
var paddedSets = []string{"imdb-classification", "listops-classification", "aan-classification"}

// flaxOptions adds settings without an option of the command line: the family, and those that follow from the data set.
func flaxOptions(options *config.Value, tensors map[string]*tensor.Tensor) (notes []string, err error) {
	set := func(key string, v config.Value) {
		if options.Get(key) == nil {
			options.Members = append(options.Members, config.Member{Key: key, Value: &v})
		}
	}
	number := func(n int) config.Value { return config.Value{Kind: config.Number, Text: strconv.Itoa(n)} }
	truth := func(b bool) config.Value { return config.Value{Kind: config.Bool, Text: strconv.FormatBool(b)} }
	size := func(name string, axis, rank int) (int, error) {
		t := tensors[name]
		if t == nil || t.Rank() != rank {
			return 0, fmt.Errorf("tensor %s: expected %d axes, found %s", name, rank, t)
		}
		return t.Dim(axis), nil
	}
	family := ""
	switch {
	case tensors["params.encoder.layers_0.seq.Lambda_re"] != nil:
		family = "s5"
	case tensors["params.encoder.layers_0.seq.nu_log"] != nil:
		family = "lru"
	default:
		return nil, errors.New("expected tensor params.encoder.layers_0.seq.Lambda_re (S5) or .nu_log (LRU), found neither")
	}
	set("model_type", config.Value{Kind: config.String, Text: family})
	inputs, err := size("params.encoder.encoder.kernel", 0, 2)
	if err != nil {
		return nil, err
	}
	set("d_input", number(inputs))
	last := "params.decoder"
	retrieval := tensors[last+".kernel"] == nil && tensors[last+".layer2.kernel"] != nil
	if retrieval {
		last += ".layer2"
	}
	outputs, err := size(last+".kernel", 1, 2)
	if err != nil {
		return nil, err
	}
	if family == "lru" {
		groups := 1
		if g := options.Get("multidim"); g != nil {
			if groups, err = strconv.Atoi(g.Text); err != nil || groups < 1 || outputs%groups != 0 {
				return nil, fmt.Errorf("multidim: expected a divisor of the %d outputs of tensor %s.kernel, found %s", outputs, last,
					config.Shorten(g.Text))
			}
		}
		set("d_output", number(outputs/groups))
		return nil, nil
	}
	set("d_output", number(outputs))
	set("retrieval", truth(retrieval))
	if options.Get("padded") == nil {
		padded := false
		if d := options.Get("dataset"); d != nil {
			padded = slices.ContainsFunc(paddedSets, func(name string) bool { return strings.HasSuffix(d.Text, name) })
		}
		set("padded", truth(padded))
		notes = append(notes, fmt.Sprintf("padded: %v, which follows from the data set", padded))
	}
	for _, key := range []string{"activation_fn", "conj_sym", "discretization", "mode", "prenorm", "clip_eigs", "bidirectional",
		"batchnorm", "blocks"} {
		if options.Get(key) == nil {
			notes = append(notes, key+": is not among the options; the default is used")
		}
	}
	return notes, nil
}
