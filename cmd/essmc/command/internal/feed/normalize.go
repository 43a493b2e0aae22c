package feed

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// Normalize is a flag for the numbers that pixels become: (v/255 - mean) / std for each channel, in float32 as
// torchvision computes it.
type Normalize struct {
	text      string
	raw       bool // 0 to 255
	mean, std []float32
}

func (n *Normalize) String() string { return n.text }

// Type is the name of the flag's value in the help.
func (n *Normalize) Type() string { return "imagenet|0..1|-1..1|none|MEAN/STD" }

// Set parses the flag.
func (n *Normalize) Set(text string) error {
	*n = Normalize{text: text}
	switch text {
	case "imagenet":
		n.mean, n.std = []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}
		return nil
	case "0..1":
		return nil
	case "-1..1":
		n.mean, n.std = []float32{0.5}, []float32{0.5}
		return nil
	case "none":
		n.raw = true
		return nil
	}
	mean, std, ok := strings.Cut(text, "/")
	var err error
	if n.mean, err = numbers(mean); err == nil && ok {
		n.std, err = numbers(std)
	}
	if err != nil || !ok || len(n.mean) != len(n.std) {
		return fmt.Errorf("expected imagenet, 0..1, -1..1, none (0 to 255), or means and standard deviations of the " +
			"channels, as in 0.5,0.5,0.5/0.25,0.25,0.25")
	}
	for _, s := range n.std {
		if s <= 0 {
			return fmt.Errorf("expected standard deviations above 0, found %v", s)
		}
	}
	return nil
}

func numbers(text string) ([]float32, error) {
	var out []float32
	for s := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(s), 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("expected numbers, found %q", s)
		}
		out = append(out, float32(v))
	}
	return out, nil
}

// apply returns the numbers of a picture: bytes for inputs of integers, which take 0 to 255, and float32 for others.
// The note says what was chosen.
func (n *Normalize) apply(p picture, elem tensor.DType) (out *tensor.Tensor, note string, err error) {
	whole := elem.IsInt()
	if whole && n.text != "" && !n.raw {
		return nil, "", fmt.Errorf("--normalize %s: the input takes integers (%v), so only none fits", n.text, elem)
	}
	if whole {
		return tensor.FromSlice(p.pix, len(p.pix)), "", nil
	}
	mean, std, err := n.channels(p.channels)
	if err != nil {
		return nil, "", err
	}
	v := make([]float32, len(p.pix))
	for i, b := range p.pix {
		x := float32(b)
		if !n.raw {
			x /= 255
		}
		if mean != nil {
			c := i % p.channels
			x = (x - mean[c]) / std[c]
		}
		v[i] = x
	}
	if n.text == "" {
		note = "scaled from 0..255 to 0..1; --normalize gives another scale, such as imagenet"
	}
	return tensor.FromSlice(v, len(v)), note, nil
}

// channels returns mean and standard deviation of each channel, or nil if there is nothing to subtract.
func (n *Normalize) channels(count int) (mean, std []float32, err error) {
	switch len(n.mean) {
	case 0:
		return nil, nil, nil
	case count:
		return n.mean, n.std, nil
	case 1:
		for range count {
			mean, std = append(mean, n.mean[0]), append(std, n.std[0])
		}
		return mean, std, nil
	}
	return nil, nil, fmt.Errorf("--normalize %s: expected means and standard deviations of %d channels, found %d",
		n.text, count, len(n.mean))
}
