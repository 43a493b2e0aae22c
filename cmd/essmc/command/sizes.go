package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// The sizes that are tried, in this order, where no --shape gives them: of sequences, and of the sides of images. A
// model may accept few of them, such as the positions that it has learned.
var (
	triedLengths = []int64{1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 2048, 4096, 16000}
	triedSides   = []int64{224, 256, 512, 640, 384, 299, 128, 64, 32, 28}
)

// sizesOf are the sizes of a graph's inputs.
type sizesOf struct {
	text          string           // for people: 1x1024
	flag          string           // as flags: --shape 1x1024
	dims          map[string]int64 // by symbol
	made          bool             // not all of them were given
	batch, length int64
}

// sizes returns the sizes for a shape. Missing ones are chosen: one sample (a pair for models of pairs), and the first
// lengths that accepts takes; nil: any. The error is that of the first try if it takes none.
func (s shape) sizes(g *ir.Graph, bound map[string]int64, accepts func(dims map[string]int64) error) (*sizesOf, error) {
	missing := missingSymbols(g, bound)
	if s.batch > 0 || len(missing) == 0 {
		dims, err := s.dims(g, bound)
		if err != nil {
			return nil, err
		}
		out := &sizesOf{text: s.String(), dims: dims, batch: s.batch, length: s.length}
		if accepts != nil {
			err = accepts(dims)
		}
		return out, err
	}
	k := kindsOf(g, missing)
	var first error
	for i := range max(len(triedLengths), len(triedSides)) {
		out := k.sizes(s, bound, at(triedLengths, i), at(triedSides, i))
		if accepts == nil {
			return out, nil
		}
		err := accepts(out.dims)
		if err == nil {
			return out, nil
		}
		if first == nil {
			first = fmt.Errorf("with %s: %w", out.flag, err)
		}
		if k.time == "" && len(k.long) == 0 && len(k.side) == 0 || errors.Is(err, runtime.ErrUnsupported) {
			break // other sizes change nothing
		}
	}
	return nil, first
}

// at returns element i of a list, or its last one.
func at(list []int64, i int) int64 { return list[min(i, len(list)-1)] }

// symbolKinds say what the symbols of a graph's inputs stand for, as far as it is known.
type symbolKinds struct {
	batch, time string   // empty: none
	per         int64    // samples per unit of batch
	long        []string // other lengths
	side        []string // rows and columns of images
	other       []string
}

func kindsOf(g *ir.Graph, missing []string) symbolKinds {
	k := symbolKinds{}
	for _, v := range g.Inputs {
		t, ok := ir.AsTensor(v.Type)
		if !ok || t.NoRank || len(t.Shape) != 4 || t.Elem == tensor.String {
			continue
		}
		sides := t.Shape[2:]
		if channelsLast(t.Shape) {
			sides = t.Shape[1:3]
		}
		for _, d := range sides {
			if s, plain := d.Symbol(); plain && slices.Contains(missing, s) && !slices.Contains(k.side, s) {
				k.side = append(k.side, s)
			}
		}
	}
	if k.batch, k.time = roles(g, missing); slices.Contains(k.side, k.time) {
		k.time = ""
	}
	k.per = samplesPer(g, k.batch)
	for _, name := range missing {
		low := strings.ToLower(name)
		switch {
		case name == k.batch || name == k.time || slices.Contains(k.side, name):
		case slices.ContainsFunc([]string{"seq", "len", "time", "step", "frame", "token"}, func(w string) bool {
			return strings.Contains(low, w)
		}):
			k.long = append(k.long, name)
		default:
			k.other = append(k.other, name)
		}
	}
	return k
}

// channelsLast reports whether only the last dimension of an image's four can be that of channels.
func channelsLast(s ir.Shape) bool {
	is := func(d ir.Dim) bool { n, known := d.Known(); return known && (n == 1 || n == 3) }
	return is(s[3]) && !is(s[1])
}

// sizes returns the sizes with one length, and one length of sides.
func (k *symbolKinds) sizes(s shape, bound map[string]int64, length, side int64) *sizesOf {
	out := &sizesOf{dims: maps.Clone(bound), made: true}
	if out.dims == nil {
		out.dims = map[string]int64{}
	}
	var named []string
	set := func(name string, n int64) {
		out.dims[name] = n
		named = append(named, fmt.Sprintf("%s=%d", name, n))
	}
	if k.batch != "" {
		set(k.batch, 1)
		out.batch = k.per
	}
	if k.time != "" {
		set(k.time, length)
		out.length = length
	}
	for _, name := range k.long {
		set(name, length)
	}
	for _, name := range k.side {
		set(name, side)
	}
	for _, name := range k.other {
		set(name, 1)
	}
	if k.batch != "" && k.time != "" && len(named) == 2 && len(s.named) == 0 {
		out.text = fmt.Sprintf("%dx%d", out.batch, out.length)
		out.flag = "--shape " + out.text
		return out
	}
	named = append(slices.Clone(s.named), named...)
	out.text = strings.Join(named, " ")
	out.flag = "--shape " + strings.Join(named, " --shape ")
	return out
}

// takes returns a function that reports whether a model accepts sizes, as far as that is known without a run.
func takes(model *runtime.Model) func(dims map[string]int64) error {
	return func(dims map[string]int64) error {
		_, err := model.Lowered(dims, noState(model)...)
		if errors.Is(err, runtime.ErrOption) { // the backend does not say
			return nil
		}
		return err
	}
}
