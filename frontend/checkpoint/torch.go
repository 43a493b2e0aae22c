package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// anchor is the name of a tensor that every eSSM has. In a state dict it may have a prefix, which all names share.
const anchor = "model.layers.0.layer.B"

// ReadTorch converts a file of torch.save: a checkpoint of the authors' released code, or of state-spaces/s4, Liquid-S4
// or DSS, or the state dict of a model of any family. The configuration is the file's hyper_parameters, or the file at
// o.Config unless that is empty: .yaml or .json with the authors' keys, or a config.json as in a model directory, which
// may name any family. The notes, in alphabetical order, list settings that are irrelevant for inference, the defaults
// of the released code that were used, and what was left out.
func ReadTorch(path string, o Options) (c models.Config, w models.Weights, notes []string, err error) {
	if err := o.check(); err != nil {
		return nil, nil, nil, err
	}
	fail := func(err error) (models.Config, models.Weights, []string, error) {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
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
	v, err := torchfile.ReadContext(o.Context, r, size, path)
	if err != nil {
		return nil, nil, nil, err
	}
	file, ok := v.(*torchfile.Dict)
	if !ok {
		return fail(notDict(v))
	}
	all, where, err := stateDict(file)
	if err == nil {
		all, notes, err = renamed(o, all)
	}
	if err != nil {
		return fail(fmt.Errorf("%s%w", where, err))
	}
	source := o.Config
	var root any
	if o.Config != "" {
		if root, c, err = configFile(o.Config); err != nil {
			return nil, nil, nil, err
		}
	}
	prefix, err := sharedPrefix(all)
	if c == nil && err != nil {
		return fail(fmt.Errorf("%s%w", where, err))
	}
	if err == nil && prefix != "" {
		var outside []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !strings.HasPrefix(name, prefix) {
				outside = append(outside, fmt.Sprintf("%s%s: is outside of %s*, left out", where, name, prefix))
			}
		}
		notes = append(notes, outside...)
		all, _ = under(all, prefix)
	}
	tensors, err := tensorsOf(all)
	if err != nil {
		return fail(fmt.Errorf("%s%w", where, err))
	}
	if c == nil {
		if o.Config == "" {
			source = path + ": hyper_parameters"
			h, ok := file.Get("hyper_parameters")
			if !ok {
				return fail(fmt.Errorf("has no hyper_parameters; give the model's configuration as a file: --config " +
					"FILE.yaml"))
			}
			if root, err = fromTorch(h); err != nil {
				return fail(fmt.Errorf("hyper_parameters: %w", err))
			}
		}
		var more []string
		if layoutOf(tensors) == released {
			c, more, err = convertAuthors(root, tensors)
		} else {
			c, tensors, more, err = convertBackbone(root, tensors)
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", source, err)
		}
		notes = append(notes, more...)
	}
	if w, err = o.weights(path, c, tensors); err != nil {
		return nil, nil, nil, err
	}
	slices.Sort(notes)
	return c, w, slices.Compact(notes), nil
}

// notDict is the error for a file of torch.save with something else than a dict, such as a whole module.
func notDict(v any) error {
	return fmt.Errorf("found %s where a dict should be; write the tensors in Python: torch.save(model.state_dict(), "+
		"FILE)",
		torchfile.Describe(v))
}

// convertAuthors is convert, of which an error has no configuration.
func convertAuthors(root any, tensors map[string]*tensor.Tensor) (models.Config, []string, error) {
	c, notes, err := convert(root, tensors)
	if err != nil {
		return nil, nil, err
	}
	return c, notes, nil
}

// stateKeys are the keys under which programs for training keep the state dict, beside the optimizer's.
var stateKeys = []string{"state_dict", "model_state_dict", "model"}

// stateDict returns the entries of the state dict in a file: of a checkpoint of Lightning or of another program for
// training, or the file's own. where begins messages about them.
func stateDict(file *torchfile.Dict) (all map[string]any, where string, err error) {
	d := file
	for _, key := range stateKeys {
		v, ok := file.Get(key)
		if !ok {
			continue
		}
		inner, ok := v.(*torchfile.Dict)
		if !ok && key == stateKeys[0] {
			return nil, "", fmt.Errorf("%s: found %s where a dict should be", key, torchfile.Describe(v))
		}
		if ok {
			d, where = inner, key+": "
			break
		}
	}
	all = map[string]any{}
	for k, v := range d.All() {
		key, ok := k.(string)
		if !ok {
			return nil, where, fmt.Errorf("found %s where the name of a tensor should be", torchfile.Describe(k))
		}
		all[key] = v
	}
	return all, where, nil
}

// tensorsOf returns entries that are tensors.
func tensorsOf(all map[string]any) (map[string]*tensor.Tensor, error) {
	tensors := make(map[string]*tensor.Tensor, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t, ok := all[name].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("%s: found %s where a tensor should be", name, torchfile.Describe(all[name]))
		}
		tensors[name] = t
	}
	return tensors, nil
}

// sharedPrefix returns the prefix of all names of an eSSM, S4 or DSS: empty, or the path of the module with the model,
// such as "net.".
func sharedPrefix[T any](all map[string]T) (string, error) {
	prefixes := map[string]bool{}
	for name := range all {
		for _, a := range anchors {
			if p, ok := strings.CutSuffix(name, a.name); ok && (p == "" || strings.HasSuffix(p, ".")) {
				prefixes[p] = true
			}
		}
	}
	switch list := slices.Sorted(maps.Keys(prefixes)); {
	case prefixes[""]:
		return "", nil
	case len(list) == 1:
		return list[0], nil
	case len(list) == 0:
		return "", fmt.Errorf("found no tensor %s, which an eSSM has, and no %s, which S4 has; for a model of "+
			"another family, give its config.json with model_type: --config config.json", anchor, anchors[1].name)
	default:
		more := ""
		if len(list) > maxShown {
			more = fmt.Sprintf(" and %d more", len(list)-maxShown)
		}
		return "", fmt.Errorf("holds several models, under %.200q%s; choose one by its prefix: --prefix %.200s",
			list[:min(len(list), maxShown)], more, strings.TrimSuffix(list[0], "."))
	}
}
