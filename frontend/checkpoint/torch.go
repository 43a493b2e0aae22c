package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// anchor is the name of a tensor that every eSSM has. In a state dict it may have a prefix, which all names share.
const anchor = "model.layers.0.layer.B"

// ReadTorch converts a checkpoint of the authors' released code, or of state-spaces/s4, Liquid-S4 or DSS. The
// configuration is the file's hyper_parameters, or the file at configPath unless that is empty: .yaml or .json with the
// authors' keys, or a config.json as in a model directory. The notes, in alphabetical order, list settings that are
// irrelevant for inference, and the defaults of the released code that were used.
func ReadTorch(path, configPath string) (c models.Config, w models.Weights, notes []string, err error) {
	v, err := torchfile.ReadFile(path)
	if err != nil {
		return nil, nil, nil, err
	}
	fail := func(err error) (models.Config, models.Weights, []string, error) {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	file, ok := v.(*torchfile.Dict)
	if !ok {
		return fail(fmt.Errorf("found %s where a dict should be", torchfile.Describe(v)))
	}
	tensors, notes, err := stateDict(file)
	if err != nil {
		return fail(err)
	}
	source := configPath
	var root any
	if configPath != "" {
		if root, c, err = configFile(configPath); err != nil {
			return nil, nil, nil, err
		}
	} else {
		source = path + ": hyper_parameters"
		h, ok := file.Get("hyper_parameters")
		if !ok {
			return fail(fmt.Errorf("holds no hyper_parameters; give the model's configuration as a file (--config FILE.yaml)"))
		}
		if root, err = fromTorch(h); err != nil {
			return fail(fmt.Errorf("hyper_parameters: %w", err))
		}
	}
	if c == nil {
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
	if w, err = weights(c, tensors); err != nil {
		return fail(err)
	}
	slices.Sort(notes)
	return c, w, slices.Compact(notes), nil
}

// convertAuthors is convert, of which an error has no configuration.
func convertAuthors(root any, tensors map[string]*tensor.Tensor) (models.Config, []string, error) {
	c, notes, err := convert(root, tensors)
	if err != nil {
		return nil, nil, err
	}
	return c, notes, nil
}

// stateDict returns the tensors of a Lightning checkpoint or of a bare state dict, without the prefix that all names
// share.
func stateDict(file *torchfile.Dict) (tensors map[string]*tensor.Tensor, notes []string, err error) {
	where := ""
	d := file
	if v, ok := file.Get("state_dict"); ok {
		if d, ok = v.(*torchfile.Dict); !ok {
			return nil, nil, fmt.Errorf("state_dict: found %s where a dict should be", torchfile.Describe(v))
		}
		where = "state_dict: "
	}
	prefix, err := sharedPrefix(d)
	if err != nil {
		return nil, nil, fmt.Errorf("%s%w", where, err)
	}
	tensors = map[string]*tensor.Tensor{}
	for k, v := range d.All() {
		key, ok := k.(string)
		if !ok {
			return nil, nil, fmt.Errorf("%sfound %s where the name of a tensor should be", where, torchfile.Describe(k))
		}
		name, ok := strings.CutPrefix(key, prefix)
		if !ok {
			notes = append(notes, fmt.Sprintf("%s%s: is outside of %s*, left out", where, key, prefix))
			continue
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return nil, nil, fmt.Errorf("%s%s: found %s where a tensor should be", where, key, torchfile.Describe(v))
		}
		tensors[name] = t
	}
	return tensors, notes, nil
}

// sharedPrefix returns the prefix of all tensors' names: empty, or the path of the module with the model, such as "net."
// or "module.".
func sharedPrefix(d *torchfile.Dict) (string, error) {
	prefixes := map[string]bool{}
	for k := range d.All() {
		if name, ok := k.(string); ok {
			for _, a := range anchors {
				if p, ok := strings.CutSuffix(name, a.name); ok && (p == "" || strings.HasSuffix(p, ".")) {
					prefixes[p] = true
				}
			}
		}
	}
	switch all := slices.Sorted(maps.Keys(prefixes)); {
	case prefixes[""]:
		return "", nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return "", fmt.Errorf("no tensor %s, so this is not the state dict of an eSSM, nor %s, …, of S4 or DSS", anchor,
			anchors[1].name)
	default:
		return "", fmt.Errorf("holds several models, under %q", all)
	}
}
