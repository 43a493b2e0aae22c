package backendtest

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// growth is a way to make a sample larger. It returns false if it does not apply, or the sample would be too large.
type growth struct {
	name string
	by   func(s opstest.Sample, factor int) (opstest.Sample, bool)
}

// mostElems bounds the elements of a grown input.
const mostElems = 1 << 28

// place is an axis of an input.
type place struct{ input, axis int }

// growths returns ways to make a sample of op larger: along dimensions that have one name in the signature, one size in
// the sample, or one position, by the numbers in small inputs and attributes, and by the length of sequences and
// strings. Those that change several of these at a time come last.
func growths(op *ir.Op, s opstest.Sample) []growth {
	var axes []growth
	seen := map[string]bool{}
	along := func(name string, at []place) {
		key := fmt.Sprint(at)
		if len(at) == 0 || seen[key] {
			return
		}
		seen[key] = true
		axes = append(axes, growth{name, func(s opstest.Sample, f int) (opstest.Sample, bool) { return stretch(s, at, f) }})
	}
	named, sized := map[string][]place{}, map[int][]place{}
	var names []string
	var sizes []int
	rank := 0
	var first, last, all []place
	for i, d := range s.In {
		x := sampleTensor(d)
		if x == nil {
			continue
		}
		dims := op.In[min(i, len(op.In)-1)].Dims
		for a, n := range x.Shape() {
			p := place{i, a}
			all = append(all, p)
			if a == 0 {
				first = append(first, p)
			}
			if a == x.Rank()-1 {
				last = append(last, p)
			}
			if len(dims) == x.Rank() && !slices.Contains(dims, "...") {
				if named[dims[a]] == nil {
					names = append(names, dims[a])
				}
				named[dims[a]] = append(named[dims[a]], p)
			}
			if sized[n] == nil {
				sizes = append(sizes, n)
			}
			sized[n] = append(sized[n], p)
		}
		rank = max(rank, x.Rank())
	}
	for _, n := range names {
		along("dimension "+n, named[n])
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	for _, n := range sizes {
		along(fmt.Sprint("size ", n), sized[n])
	}
	along("first axes", first)
	along("last axes", last)
	for a := range rank {
		at := slices.DeleteFunc(slices.Clone(all), func(p place) bool { return p.axis != a })
		along(fmt.Sprint("axes ", a), at)
	}
	for _, p := range all {
		along(fmt.Sprintf("axis %d of input %d", p.axis, p.input), []place{p})
	}
	for _, n := range sizes {
		for i := range s.In {
			at := slices.DeleteFunc(slices.Clone(sized[n]), func(p place) bool { return p.input != i })
			along(fmt.Sprintf("size %d of input %d", n, i), at)
		}
	}
	var numbers []growth
	for i, d := range s.In {
		switch x := d.(type) {
		case *tensor.Tensor:
			if x.DType().IsInt() && x.Len() <= 8 {
				for j := range x.Len() {
					numbers = append(numbers, growth{fmt.Sprintf("number %d of input %d", j, i),
						func(s opstest.Sample, f int) (opstest.Sample, bool) { return enlarge(s, i, j, f) }})
				}
			}
			if x.DType() == tensor.String {
				numbers = append(numbers, growth{fmt.Sprint("strings of input ", i),
					func(s opstest.Sample, f int) (opstest.Sample, bool) { return lengthen(s, i, f) }})
			}
		case *tensor.Sequence:
			numbers = append(numbers, growth{fmt.Sprint("items of input ", i),
				func(s opstest.Sample, f int) (opstest.Sample, bool) { return moreItems(s, i, f) }})
		}
	}
	for k, a := range s.Attrs {
		switch v := a.Value.(type) {
		case int64, int:
			numbers = append(numbers, growth{"attribute " + a.Name,
				func(s opstest.Sample, f int) (opstest.Sample, bool) { return moreOf(s, k, -1, f) }})
		case []int64:
			for j := range v {
				numbers = append(numbers, growth{fmt.Sprintf("number %d of attribute %s", j, a.Name),
					func(s opstest.Sample, f int) (opstest.Sample, bool) { return moreOf(s, k, j, f) }})
			}
		}
	}
	if op.Name == "ImageDecoder" {
		axes = []growth{{"a picture", func(s opstest.Sample, f int) (opstest.Sample, bool) {
			return with(s, 0, picture(min(8*f, 4096))), true
		}}}
	}
	out := append(slices.Clone(axes), numbers...)
	for _, a := range axes {
		for _, b := range numbers {
			out = append(out, both(a, b))
		}
	}
	for i, a := range axes {
		for _, b := range axes[:i] {
			out = append(out, both(a, b))
		}
	}
	return out
}

func both(a, b growth) growth {
	return growth{a.name + ", " + b.name, func(s opstest.Sample, f int) (opstest.Sample, bool) {
		s, ok := a.by(s, f)
		if !ok {
			return s, false
		}
		return b.by(s, f)
	}}
}

// picture returns a PNG file of a picture that compresses well.
func picture(size int) *tensor.Tensor {
	m := image.NewRGBA(image.Rect(0, 0, size, 64))
	for i := range m.Pix {
		m.Pix[i] = byte(i >> 8)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err) // there is memory
	}
	return tensor.FromSlice(b.Bytes(), b.Len())
}

// sampleTensor returns a tensor, or the first item of a sequence of tensors.
func sampleTensor(d tensor.Datum) *tensor.Tensor {
	switch x := d.(type) {
	case *tensor.Tensor:
		return x
	case *tensor.Sequence:
		if len(x.Items) > 0 {
			t, _ := x.Items[0].(*tensor.Tensor)
			return t
		}
	case *tensor.Optional:
		return sampleTensor(x.Value)
	}
	return nil
}

// with replaces an input.
func with(s opstest.Sample, i int, d tensor.Datum) opstest.Sample {
	s.In = slices.Clone(s.In)
	s.In[i] = d
	return s
}

// stretch multiplies dimensions. The content repeats.
func stretch(s opstest.Sample, at []place, factor int) (opstest.Sample, bool) {
	for i, d := range s.In {
		axes := []int{}
		for _, p := range at {
			if p.input == i {
				axes = append(axes, p.axis)
			}
		}
		if len(axes) == 0 {
			continue
		}
		r, ok := repeated(d, axes, factor)
		if !ok {
			return s, false
		}
		s = with(s, i, r)
	}
	return s, true
}

func repeated(d tensor.Datum, axes []int, factor int) (tensor.Datum, bool) {
	switch x := d.(type) {
	case *tensor.Tensor:
		return repeatedTensor(x, axes, factor)
	case *tensor.Sequence:
		out := &tensor.Sequence{}
		for _, item := range x.Items {
			r, ok := repeated(item, axes, factor)
			if !ok {
				return nil, false
			}
			out.Items = append(out.Items, r)
		}
		return out, true
	case *tensor.Optional:
		r, ok := repeated(x.Value, axes, factor)
		return &tensor.Optional{Value: r}, ok
	}
	return nil, false
}

func repeatedTensor(x *tensor.Tensor, axes []int, factor int) (*tensor.Tensor, bool) {
	for _, a := range axes {
		if a >= x.Rank() || x.Len() == 0 || x.Len() > mostElems/factor {
			return nil, false
		}
		shape := slices.Clone(x.Shape())
		shape[a] *= factor
		y := tensor.New(x.DType(), shape...)
		inner := 1
		for _, n := range x.Shape()[a:] {
			inner *= n
		}
		if bits := x.DType().Bits(); x.DType() != tensor.String && (bits < 8 && inner*bits%8 != 0) {
			v, err := x.Float64s()
			if err != nil {
				return nil, false
			}
			w := make([]float64, 0, y.Len())
			for lo := 0; lo < len(v); lo += inner {
				for range factor {
					w = append(w, v[lo:lo+inner]...)
				}
			}
			if y, err = tensor.FromFloat64s(x.DType(), w, shape...); err != nil {
				return nil, false
			}
		} else if x.DType() == tensor.String {
			dst := y.Strings()[:0]
			for lo := 0; lo < x.Len(); lo += inner {
				for range factor {
					dst = append(dst, x.Strings()[lo:lo+inner]...)
				}
			}
		} else {
			dst, run := y.Bytes()[:0], inner*bits/8
			for lo := 0; lo < len(x.Bytes()); lo += run {
				for range factor {
					dst = append(dst, x.Bytes()[lo:lo+run]...)
				}
			}
		}
		x = y
	}
	return x, true
}

// enlarge multiplies an integer of an input.
func enlarge(s opstest.Sample, i, j, factor int) (opstest.Sample, bool) {
	x := s.In[i].(*tensor.Tensor)
	v, err := x.Int64s()
	if err != nil || j >= len(v) || v[j] < 1 || v[j] > mostElems {
		return s, false
	}
	w := make([]float64, len(v))
	for k := range v {
		w[k] = float64(v[k])
	}
	w[j] *= float64(factor)
	y, err := tensor.FromFloat64s(x.DType(), w, x.Shape()...)
	if err != nil {
		return s, false
	}
	return with(s, i, y), true
}

// lengthen repeats each string.
func lengthen(s opstest.Sample, i, factor int) (opstest.Sample, bool) {
	x := s.In[i].(*tensor.Tensor)
	y := tensor.New(tensor.String, x.Shape()...)
	for k, text := range x.Strings() {
		if len(text) > mostElems/factor {
			return s, false
		}
		y.Strings()[k] = strings.Repeat(text, factor)
	}
	return with(s, i, y), true
}

func moreItems(s opstest.Sample, i, factor int) (opstest.Sample, bool) {
	x := s.In[i].(*tensor.Sequence)
	if len(x.Items) == 0 || len(x.Items) > mostElems/factor/64 {
		return s, false
	}
	return with(s, i, &tensor.Sequence{Items: slices.Repeat(x.Items, factor)}), true
}

// moreOf multiplies an attribute, or one of its numbers.
func moreOf(s opstest.Sample, k, j, factor int) (opstest.Sample, bool) {
	a := s.Attrs[k]
	switch v := a.Value.(type) {
	case int64:
		if v < 1 || v > mostElems {
			return s, false
		}
		a = ir.A(a.Name, v*int64(factor))
	case int:
		if v < 1 || v > mostElems {
			return s, false
		}
		a = ir.A(a.Name, v*factor)
	case []int64:
		if v[j] < 1 || v[j] > mostElems {
			return s, false
		}
		v = slices.Clone(v)
		v[j] *= int64(factor)
		a = ir.A(a.Name, v)
	}
	s.Attrs = slices.Clone(s.Attrs)
	s.Attrs[k] = a
	return s, true
}

// samplesOf returns the samples of an operator, or its first random cases.
func samplesOf(op *ir.Op) []opstest.Sample {
	if all := samples.Of(op); len(all) > 0 {
		return all
	}
	var out []opstest.Sample
	for attempt := 0; attempt < 100 && len(out) < 4; attempt++ {
		c, err := generate(op, attempt)
		if err != nil || c == nil {
			continue
		}
		if _, err := truth(c.graph, c.in); err != nil {
			continue
		}
		n := c.graph.Nodes[0]
		s := opstest.Sample{Attrs: n.Attrs, Outs: len(n.Outputs)}
		empty := false
		for i, v := range n.Inputs {
			switch {
			case v == nil:
				s.In = append(s.In, nil)
				continue
			case v.Const != nil:
				s.In, s.Consts = append(s.In, v.Const), append(s.Consts, i)
			default:
				s.In = append(s.In, c.in[v.Name])
			}
			x := sampleTensor(s.In[i])
			empty = empty || x != nil && x.Len() == 0
		}
		if !empty {
			out = append(out, s)
		}
	}
	return out
}
