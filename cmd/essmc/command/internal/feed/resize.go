package feed

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Image says how images become inputs.
type Image struct {
	Resize    Resize
	Normalize Normalize
}

// Resize is a flag for the size of images.
type Resize struct {
	text          string
	height, width int  // exactly these; 0: see short
	short         int  // the shorter side, before the crop; 0: see crop
	crop          bool // to the size of the input
	cubic         bool
}

// maxSide bounds the sides of a resized image.
const maxSide = 1 << 15

func (r *Resize) String() string { return r.text }

// Type is the name of the flag's value in the help.
func (r *Resize) Type() string { return "HxW|N|crop" }

// Set parses the flag.
func (r *Resize) Set(text string) error {
	*r = Resize{text: text}
	size, filter, filtered := strings.Cut(text, ",")
	if filtered && filter != "bilinear" && filter != "bicubic" {
		return fmt.Errorf("expected bilinear or bicubic after the comma, found %q", filter)
	}
	r.cubic = filter == "bicubic"
	side := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxSide {
			return 0
		}
		return n
	}
	if size == "crop" {
		r.crop = true
		return nil
	}
	h, w, both := strings.Cut(strings.ToLower(size), "x")
	if both {
		r.height, r.width = side(h), side(w)
	} else {
		r.short, r.crop = side(size), true
	}
	if r.short == 0 && (r.height == 0 || r.width == 0) {
		return fmt.Errorf("expected HEIGHTxWIDTH, the length of the shorter side, or crop, as in 224x224, 256 or " +
			"crop,bicubic")
	}
	return nil
}

func (r *Resize) given() bool { return r.text != "" }

// apply resizes a picture for an input of a size; 0: of any size.
func (r *Resize) apply(p picture, height, width int) (picture, error) {
	h, w := p.height, p.width
	switch {
	case r.height > 0:
		h, w = r.height, r.width
	case r.short > 0:
		h, w = shorter(p, r.short, r.short)
	case r.crop && (height == 0 || width == 0):
		return p, fmt.Errorf("--resize crop: the input has no fixed height and width; try --resize 224x224")
	case r.crop:
		h, w = shorter(p, height, width)
	default: // stretched
		if height > 0 {
			h = height
		}
		if width > 0 {
			w = width
		}
	}
	if h > maxSide || w > maxSide {
		return p, fmt.Errorf("--resize: the image would be %d x %d, expected at most %d", h, w, maxSide)
	}
	f := bilinear
	if r.cubic {
		f = bicubic
	}
	p = p.resized(h, w, f)
	if r.crop && height > 0 && width > 0 {
		if p.height < height || p.width < width {
			return p, fmt.Errorf("--resize %s: the image would be %d x %d, smaller than the input, %d x %d", r.text,
				p.height, p.width, height, width)
		}
		p = p.cropped(height, width)
	}
	if height > 0 && height != p.height || width > 0 && width != p.width {
		return p, fmt.Errorf("--resize %s: expected the size of the input, %s, found %d x %d", r.text,
			sides(height, width), p.height, p.width)
	}
	return p, nil
}

func sides(height, width int) string {
	text := func(n int) string {
		if n == 0 {
			return "any"
		}
		return strconv.Itoa(n)
	}
	return text(height) + " x " + text(width)
}

// shorter returns the size of a picture that covers height x width, with the proportions kept as torchvision's Resize
// does: the longer side is cut to an integer.
func shorter(p picture, height, width int) (h, w int) {
	if p.height*width <= p.width*height { // the height decides
		return height, max(width, p.width*height/p.height)
	}
	return max(height, p.height*width/p.width), width
}

// cropped returns the middle, whose place is rounded to even as in torchvision's CenterCrop.
func (p picture) cropped(height, width int) picture {
	top := int(math.RoundToEven(float64(p.height-height) / 2))
	left := int(math.RoundToEven(float64(p.width-width) / 2))
	out := picture{height, width, p.channels, make([]byte, 0, height*width*p.channels)}
	for y := range height {
		from := ((top+y)*p.width + left) * p.channels
		out.pix = append(out.pix, p.pix[from:from+width*p.channels]...)
	}
	return out
}

// filter is a kernel of resampling, zero outside of its support.
type filter struct {
	support float64
	at      func(x float64) float64
}

var (
	bilinear = filter{1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }}
	bicubic  = filter{2, func(x float64) float64 {
		const a = -0.5
		switch x = math.Abs(x); {
		case x < 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return (((x-5)*x+8)*x - 4) * a
		}
		return 0
	}}
)

// weightBits are the bits of the fractions of weights, as in Pillow, so that pixels are equal to Pillow's.
const weightBits = 32 - 8 - 2

// taps are the weights of one pixel of the result: of the pixels from first on.
type taps struct {
	first   int
	weights []int32
}

// tapsOf returns the weights of an axis. Where it shrinks, the filter is as wide as a pixel of the result, so that each
// pixel of the source counts.
func tapsOf(from, to int, f filter) []taps {
	scale := float64(from) / float64(to)
	wide := max(scale, 1)
	support := f.support * wide
	out := make([]taps, to)
	for i := range out {
		center := (float64(i) + 0.5) * scale
		lo := max(int(center-support+0.5), 0)
		hi := min(int(center+support+0.5), from)
		w, sum := make([]float64, hi-lo), 0.0
		for k := range w {
			w[k] = f.at((float64(k+lo) - center + 0.5) * (1 / wide))
			sum += w[k]
		}
		out[i] = taps{lo, make([]int32, hi-lo)}
		for k, v := range w {
			if sum != 0 {
				v /= sum
			}
			if v < 0 {
				out[i].weights[k] = int32(-0.5 + v*(1<<weightBits))
			} else {
				out[i].weights[k] = int32(0.5 + v*(1<<weightBits))
			}
		}
	}
	return out
}

// resized resamples a picture, columns first and then rows, with bytes in between.
func (p picture) resized(height, width int, f filter) picture {
	if width != p.width {
		p = p.narrowed(tapsOf(p.width, width, f))
	}
	if height != p.height {
		p = p.lowered(tapsOf(p.height, height, f))
	}
	return p
}

func (p picture) narrowed(axis []taps) picture {
	out := picture{p.height, len(axis), p.channels, make([]byte, p.height*len(axis)*p.channels)}
	for y := range p.height {
		row, to := p.pix[y*p.width*p.channels:], out.pix[y*out.width*p.channels:]
		for x, t := range axis {
			for c := range p.channels {
				sum := int32(1) << (weightBits - 1)
				for k, w := range t.weights {
					sum += w * int32(row[(t.first+k)*p.channels+c])
				}
				to[x*p.channels+c] = clip8(sum)
			}
		}
	}
	return out
}

func (p picture) lowered(axis []taps) picture {
	n := p.width * p.channels
	out := picture{len(axis), p.width, p.channels, make([]byte, len(axis)*n)}
	sums := make([]int32, n)
	for y, t := range axis {
		for i := range sums {
			sums[i] = 1 << (weightBits - 1)
		}
		for k, w := range t.weights {
			for i, v := range p.pix[(t.first+k)*n:][:n] {
				sums[i] += w * int32(v)
			}
		}
		for i, s := range sums {
			out.pix[y*n+i] = clip8(s)
		}
	}
	return out
}

func clip8(sum int32) byte { return byte(min(max(sum>>weightBits, 0), 255)) }
