package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// Options are the options for reading a checkpoint or a model directory. The zero value reads it as it is.
type Options struct {
	// Config is the path of the configuration. If it is empty, the configuration is part of the checkpoint or beside
	// it.
	Config string
	// Prefix selects the tensors whose names begin with it, and cuts it off: "net" or "net." makes
	// backbone.embeddings.weight of net.backbone.embeddings.weight. The other tensors are left out, and a note has
	// their number. The prefixes of torch's wrappers (module. and _orig_mod.) need no option.
	Prefix string
	// Bytes bounds the size of the files with the weights in total; 0: the bound of the format.
	Bytes int64
	// Context, if not nil, ends reading with an error when it is done.
	Context context.Context
}

// ended returns an error if the context is done.
func (o Options) ended(path string) error {
	if o.Context == nil || o.Context.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, context.Cause(o.Context))
}

// compiled is a part of names below modules that torch.compile has wrapped, and parallel begins the names of models
// that DataParallel has wrapped.
const (
	compiled = "_orig_mod."
	parallel = "module."
)

// Bounds on wrappers and prefixes: parts of one, bytes of a name, prefixes that are tried, and those in a message.
const (
	maxParts    = 16
	maxName     = 1 << 10
	maxPrefixes = 8
	maxShown    = 8
)

// unwrapped returns the entries under the names that a model has without torch's wrappers, in any order of nesting, up
// to maxParts deep. The names stay if two would become one.
func unwrapped[T any](all map[string]T) map[string]T {
	for range maxParts {
		cut := make(map[string]T, len(all))
		same := true
		_, outside := under(all, parallel)
		for name, v := range all {
			short := name
			if outside == 0 {
				short = name[len(parallel):]
			}
			short = strings.ReplaceAll(strings.TrimPrefix(short, compiled), "."+compiled, ".")
			same = same && short == name
			cut[short] = v
		}
		if same || len(cut) < len(all) {
			return all
		}
		all = cut
	}
	return all
}

// under returns the entries whose names begin with a prefix, without it, and the number of others.
func under[T any](all map[string]T, prefix string) (map[string]T, int) {
	in := map[string]T{}
	for name, v := range all {
		if short, ok := strings.CutPrefix(name, prefix); ok && short != "" {
			in[short] = v
		}
	}
	return in, len(all) - len(in)
}

// renamed returns the entries of a checkpoint under the names of the model: those behind Prefix, and without what
// torch's wrappers add.
func renamed[T any](o Options, all map[string]T) (map[string]T, []string, error) {
	plain := unwrapped(all)
	if o.Prefix == "" {
		return plain, nil, nil
	}
	prefix := dotted(o.Prefix)
	for _, from := range []map[string]T{all, plain} {
		in, outside := under(from, prefix)
		if len(in) == 0 {
			continue
		}
		var notes []string
		if outside > 0 {
			notes = []string{fmt.Sprintf("left out %s whose names do not begin with %s",
				models.Plural(outside, "tensor"), config.Shorten(prefix))}
		}
		return unwrapped(in), notes, nil
	}
	return nil, nil, fmt.Errorf("expected tensors whose names begin with the prefix %s, found %s",
		config.Shorten(prefix), beginnings(plain))
}

// dotted returns the prefix with a dot at its end.
func dotted(prefix string) string { return strings.TrimSuffix(prefix, ".") + "." }

// beginnings lists the first parts of names.
func beginnings[T any](all map[string]T) string {
	parts := map[string]bool{}
	for name := range all {
		first, _, more := strings.Cut(name, ".")
		if more {
			first += ".*"
		}
		parts[first] = true
	}
	list := slices.Sorted(maps.Keys(parts))
	for i, p := range list {
		list[i] = config.Shorten(p)
	}
	switch {
	case len(list) == 0:
		return "no tensors"
	case len(list) > maxShown:
		return strings.Join(list[:maxShown], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}

// weights is the function weights for the checkpoint at path. If tensors are missing that are all there behind a
// prefix, the error names it, and what to type.
func (o Options) weights(path string, c models.Config, tensors map[string]*tensor.Tensor) (w models.Weights,
	err error) {
	defer ends.Catch(path, &err)
	if w, err = weights(ends.Of(o.Context), c, tensors); err == nil {
		return w, nil
	}
	if err := o.ended(path); err != nil {
		return nil, err
	}
	prefix, missing, n := behind(c, tensors)
	if prefix == "" {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Prefix != "" {
		prefix = dotted(o.Prefix) + prefix
	}
	line := "essmc convert " + word(path)
	if o.Config != "" {
		line += " --config " + word(o.Config)
	}
	return nil, fmt.Errorf("%s: tensor %s: is missing, but all tensors of the model (%d) are there with the prefix "+
		"%s; try %s --prefix %s -o OUT", path, config.Shorten(missing), n, config.Shorten(prefix), line,
		word(strings.TrimSuffix(prefix, ".")))
}

// word returns a word of a command line, in quotes if a shell needs them.
func word(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\"'$&|;<>()*?[]{}\\`!#~") {
		return strconv.Quote(s)
	}
	return s
}

// behind returns the prefix behind which all tensors of a model are whose names are missing, the first of these, and
// the number of all; "" if there is none.
func behind(c models.Config, tensors map[string]*tensor.Tensor) (prefix, missing string, n int) {
	tensors, err := foldWeightNorm(nil, tensors)
	if err != nil {
		return "", "", 0
	}
	specs, err := c.Specs(nil)
	if err != nil {
		return "", "", 0
	}
	wanted := map[string]bool{}
	for _, s := range specs {
		wanted[s.Name] = true
	}
	count := map[string]int{}
	for name := range tensors {
		if len(name) > maxName {
			continue
		}
		for at, parts := 0, 0; parts < maxParts; parts++ {
			next := strings.IndexByte(name[at:], '.')
			if next < 0 {
				break
			}
			if at += next + 1; wanted[name[at:]] {
				count[name[:at]]++
			}
		}
	}
	found := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], len(a)-len(b), strings.Compare(a, b))
	})
	for _, p := range found[:min(len(found), maxPrefixes)] {
		in, _ := under(tensors, p)
		in = unwrapped(in)
		specs, err := c.Specs(in)
		if err != nil || slices.ContainsFunc(specs, func(s models.Spec) bool { return in[s.Name] == nil }) {
			continue
		}
		if i := slices.IndexFunc(specs, func(s models.Spec) bool { return tensors[s.Name] == nil }); i >= 0 {
			return p, specs[i].Name, len(specs)
		}
	}
	return "", "", 0
}

var errPrefix = errors.New("option Prefix: expected the beginning of the names of tensors, as in net, found a dot")

// check refuses options that are no use.
func (o Options) check() error {
	if strings.Trim(o.Prefix, ".") == "" && o.Prefix != "" {
		return errPrefix
	}
	return nil
}
