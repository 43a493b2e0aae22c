package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// idxTypes are the types of elements of IDX files, by the third byte of their magic number.
var idxTypes = map[byte]tensor.DType{0x08: tensor.Uint8, 0x09: tensor.Int8, 0x0b: tensor.Int16, 0x0c: tensor.Int32,
	0x0d: tensor.Float32, 0x0e: tensor.Float64}

// ReadIDX reads a file in the IDX format, in which MNIST is published. A file whose name ends with .gz is expanded.
func ReadIDX(ctx context.Context, path string) (*tensor.Tensor, error) {
	b, err := readPlain(ctx, path)
	if err != nil {
		return nil, err
	}
	t, err := parseIDX(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// parseIDX reads two zeros, the type, the number of dimensions, the dimensions with four bytes each, and the elements;
// all numbers have the most significant byte first.
func parseIDX(b []byte) (*tensor.Tensor, error) {
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, err
	}
	if len(b) < 4 || b[0] != 0 || b[1] != 0 || idxTypes[b[2]] == 0 {
		return nil, fmt.Errorf("not an IDX file: expected the bytes 00 00, a type and a number of dimensions, found % x",
			b[:min(4, len(b))])
	}
	dtype, rank := idxTypes[b[2]], int(b[3])
	if len(b) < 4+4*rank {
		return nil, fmt.Errorf("header: expected %d dimensions of 4 bytes, found %d bytes", rank, len(b)-4)
	}
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = tensor.Extent(int64(binary.BigEndian.Uint32(b[4+4*i:])))
	}
	count, err := tensor.Size(shape)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	b = b[4+4*rank:]
	width := dtype.Bits() / 8
	if len(b)/width != count || len(b)%width != 0 {
		return nil, fmt.Errorf("expected %s%s of %d bytes each, found %d bytes",
			dtype, tensor.ShapeString(shape), width, len(b))
	}
	if width > 1 {
		b = bytes.Clone(b)
		for e := range slices.Chunk(b, width) {
			slices.Reverse(e)
		}
	}
	return tensor.FromBytes(dtype, shape, b)
}

var mnist = Source{Name: "MNIST",
	URL: "https://yann.lecun.com/exdb/mnist/ (or a mirror of it)", Hint: "with or without .gz"}

// MNIST reads the handwritten digits of LeCun, Cortes and Burges from the folder dir: the part "train" (60,000 samples)
// or "test" (10,000), from the files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte, each with or without .gz. Inputs are (784, 1) in [0, 1], row by row; classes are the digits.
// Sets in the same files and of other pictures, such as Fashion-MNIST, are read as well.
func MNIST(ctx context.Context, dir, split string) (Dataset, error) {
	prefix := map[string]string{"train": "train", "test": "t10k"}[split]
	if prefix == "" {
		return nil, splitError(split, "train", "test")
	}
	var all [2]*tensor.Tensor
	var paths [2]string
	for i, name := range []string{"-images-idx3-ubyte", "-labels-idx1-ubyte"} {
		path, b, err := mnist.first(ctx, dir, prefix+name, prefix+name+".gz")
		if err != nil {
			return nil, err
		}
		t, err := parseIDX(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if t.DType() != tensor.Uint8 || t.Rank() != 3-2*i {
			return nil, fmt.Errorf("%s: expected uint8 with %d dimensions, found %s", path, 3-2*i, t)
		}
		paths[i], all[i] = path, t
	}
	images, labels := all[0], all[1].Bytes()
	if images.Dim(0) != len(labels) || len(labels) == 0 || images.Len() == 0 {
		return nil, fmt.Errorf("%s: expected one label for each of %d pictures, found %d",
			paths[1], images.Dim(0), len(labels))
	}
	for i, v := range labels {
		if v > 9 {
			return nil, fmt.Errorf("%s: label %d: expected 0 to 9, found %d", paths[1], i, v)
		}
	}
	return &pictures{height: images.Dim(1), width: images.Dim(2), pixels: images.Bytes(), labels: labels,
		classes: numbered(10)}, nil
}

// pictures are pictures of bytes: for each picture its channels, one after the other.
type pictures struct {
	height, width int
	rgb           bool // three channels; otherwise one
	gray          bool // three channels are read as one
	pixels        []byte
	labels        []byte
	classes       []string
}

func (p *pictures) Len() int        { return len(p.labels) }
func (p *pictures) Steps(i int) int { return p.height * p.width }

func (p *pictures) Spec() Spec {
	s := Spec{Features: 1, Steps: p.height * p.width, Inputs: 1, Height: p.height, Width: p.width, Classes: p.classes}
	if p.rgb && !p.gray {
		s.Features = 3
	}
	return s
}

func (p *pictures) Sample(_ context.Context, i int) (Sample, error) {
	s, n := p.Spec(), p.height*p.width
	v := make([]float32, n*s.Features)
	switch {
	case !p.rgb:
		for t, x := range p.pixels[i*n : (i+1)*n] {
			v[t] = float32(x) / 255
		}
	default:
		x := p.pixels[3*i*n : 3*(i+1)*n]
		for t := range n {
			r, g, b := x[t], x[n+t], x[2*n+t]
			if p.gray {
				v[t] = float32(luma(r, g, b)) / 255
			} else {
				v[3*t], v[3*t+1], v[3*t+2] = float32(r)/255, float32(g)/255, float32(b)/255
			}
		}
	}
	return Sample{[]*tensor.Tensor{tensor.FromSlice(v, n, s.Features)}, class(int(p.labels[i]))}, nil
}

// luma returns the brightness of a colour, rounded as the Python library PIL rounds it: (19595 r + 38470 g + 7471 b +
// 2^15) / 2^16.
func luma(r, g, b byte) byte {
	return byte((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
}
