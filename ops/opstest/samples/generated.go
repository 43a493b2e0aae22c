package samples

import (
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// generated makes samples from the signature of an operator on float32 numbers that needs no attributes: with all
// optional inputs, and with none. It returns nil if the operator's inference refuses these.
func generated(o *ir.Op) list {
	var all list
	for _, optional := range []bool{true, false} {
		s, ok := fromSignature(o, optional)
		if !ok {
			return nil
		}
		all = append(all, s)
	}
	return all
}

// fromSignature makes one sample. Names of dimensions stand for sizes that differ.
func fromSignature(o *ir.Op, optional bool) (s opstest.Sample, ok bool) {
	sizes := map[string]int{"...": 2, "_": 2}
	n := &ir.Node{Op: o}
	for _, p := range o.In {
		if p.Optional && !optional {
			break
		}
		if elems, listed := o.Elems[p.Elem]; p.Elem != "float" && (listed && !slices.Contains(elems, tensor.Float32) ||
			p.Elem[0] < 'A' || p.Elem[0] > 'Z') {
			return s, false
		}
		shape := []int{}
		for _, d := range p.Dims {
			size, err := strconv.Atoi(d)
			if err != nil {
				if size = sizes[d]; size == 0 {
					size = 3 + len(sizes)
					sizes[d] = size
				}
			}
			shape = append(shape, size)
		}
		if p.Dims == nil {
			shape = []int{3, 5}
		}
		x := normal(shape...)
		s.In = append(s.In, x)
		n.Inputs = append(n.Inputs, &ir.Value{Name: p.Name, Type: ir.Of(x.(*tensor.Tensor))})
	}
	s.Outs = len(o.Out)
	for range o.Out {
		n.Outputs = append(n.Outputs, &ir.Value{Def: n})
	}
	_, err := ir.Infer(n)
	return s, err == nil && len(s.In) > 0
}
