package synthetic

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// PathfinderOptions say which pictures to draw.
type PathfinderOptions struct {
	Seed    uint64
	Samples int
	Size    int // pixels of a side: 32 (Pathfinder), 64, or 128 (Path-X); 0: 32
	Contour int // dashes of the two long contours: 6 (easy), 9 or 14 (hard); 0: 14
}

// Pathfinder draws pictures of two long contours of dashes, of shorter ones, and of two dots, each at an end of a long
// contour. The class is 1 if the dots are at the two ends of one contour, and 0 if each is at another one. The rules
// are those of Linsley and others ("Learning long-range spatial dependencies with horizontal gated recurrent units",
// 2018) with the parameters of the Long Range Arena for each size:
//
//   - A contour begins with a dash at a random place and in a random direction. The dash after it begins two margins
//     further on, and its end is a random pixel on a circle, with the probability of max(0, cos(min(continuity·angle,
//     π/2)))², where the angle is that between the two dashes, times what is left free there by the contours drawn
//     before.
//   - A dash and its margin must not cover what the margins of other dashes cover, those next to it in its own contour
//     excepted. If no place is found, the contour is begun anew: the long ones until both are complete, others five
//     times.
//   - The long contours begin near each other, far from the border of the picture, and grow in turns.
//
// Dashes and dots are drawn as the part of each pixel that they cover, at 4 × 4 points; the published program draws
// lines of whole pixels in a larger picture, and reduces it. It also lets the newest dashes of the two contours cross;
// here contours never touch.
//
// Inputs are (Size², 1), row by row: multiples of 1/255 from 0 to 1.
type Pathfinder struct {
	o      PathfinderOptions
	r      rules
	tables []*table // for each margin
}

// rules are the parameters of a size. Lengths are pixels.
type rules struct {
	length      int     // of a dash
	thickness   float64 // of a dash
	margins     []int   // of which each picture has one
	seeds       int     // distance between the beginnings of the long contours
	marker      float64 // radius of a dot
	continuity  float64
	total       int // dashes of all short contours, about
	long, short float64
}

// ruled are the rules of the sizes. The brightness of the short contours in the smallest pictures is not that of the
// long ones, as published.
var ruled = map[int]rules{
	32: {length: 2, thickness: 0.5, margins: []int{1}, seeds: 7, marker: 1.5, continuity: 1, total: 20, long: 1.5, short: 2},
	64: {length: 5, thickness: 1, margins: []int{1}, seeds: 12, marker: 2.5, continuity: 1.8, total: 22, long: 0.8, short: 0.8},
	128: {length: 5, thickness: 1.5, margins: []int{2, 3}, seeds: 20, marker: 3, continuity: 1.8, total: 35,
		long: 0.9, short: 0.9},
}

// NewPathfinder returns a set of pictures.
func NewPathfinder(o PathfinderOptions) (*Pathfinder, error) {
	if err := checkSamples(o.Samples); err != nil {
		return nil, fmt.Errorf("Pathfinder: %w", err)
	}
	if o.Size == 0 {
		o.Size = 32
	}
	if o.Contour == 0 {
		o.Contour = 14
	}
	r, ok := ruled[o.Size]
	if !ok || o.Contour < 3 || o.Contour > 14 {
		return nil, fmt.Errorf("Pathfinder: expected a size of 32, 64 or 128 and contours of 3 to 14 dashes, found %d and %d",
			o.Size, o.Contour)
	}
	p := &Pathfinder{o: o, r: r}
	for _, margin := range r.margins {
		p.tables = append(p.tables, newTable(r, margin))
	}
	return p, nil
}

// Len implements data.Dataset.
func (p *Pathfinder) Len() int { return p.o.Samples }

// Spec implements data.Dataset.
func (p *Pathfinder) Spec() data.Spec {
	n := p.o.Size
	return data.Spec{Features: 1, Steps: n * n, Inputs: 1, Height: n, Width: n, Classes: []string{"apart", "connected"}}
}

// Steps implements data.Dataset.
func (p *Pathfinder) Steps(int) int { return p.o.Size * p.o.Size }

// Sample implements data.Dataset.
func (p *Pathfinder) Sample(ctx context.Context, i int) (data.Sample, error) {
	d, err := p.draw(ctx, i)
	if err != nil {
		return data.Sample{}, err
	}
	x := make([]float32, len(d.image))
	for t, v := range d.bytes() {
		x[t] = float32(v) / 255
	}
	return data.Sample{Inputs: []*tensor.Tensor{tensor.FromSlice(x, len(x), 1)}, Target: tensor.Scalar(int64(d.class))}, nil
}

// full is the value of a pixel that is covered: the number of points that are counted.
const (
	grid  = 4
	full  = grid * grid
	taken = 5  // a pixel counts as occupied from 0.3 on
	clash = 28 // two dashes clash where their margins together cover more than this: 1.8
)

// pixel is a place, y down and x to the right.
type pixel struct{ y, x int }

// sincos returns the sine and cosine of an angle as multiples of 2^-40: the functions of package math differ in their
// last bits from machine to machine, which decides where a direction such as 45 degrees meets a pixel exactly.
func sincos(angle float64) (sin, cos float64) {
	const unit = 1 << 40
	sin, cos = math.Sincos(angle)
	return math.RoundToEven(sin*unit) / unit, math.RoundToEven(cos*unit) / unit
}

// along returns the place at a distance in a direction, rounded up.
func (p pixel) along(angle float64, distance int) pixel {
	sin, cos := sincos(angle)
	return pixel{int(math.Ceil(float64(p.y) + float64(float64(distance)*sin))),
		int(math.Ceil(float64(p.x) + float64(float64(distance)*cos)))}
}

// shape is what a dash in one direction and its margin cover of the pixels around its beginning, up to reach away.
type shape struct {
	angle      float64
	reach      int
	dash, mask []cover
	whole      []pixel // pixels that the mask covers as a whole
	low, high  pixel   // their smallest and largest coordinates, and those of the beginning
	dense      []uint8 // the mask, as a square
}

// cover is how much of a pixel is covered, of full.
type cover struct {
	pixel
	v uint8
}

// newShape draws a dash in a direction.
func newShape(r rules, margin int, angle float64) *shape {
	s := &shape{angle: angle, reach: r.length + int(math.Ceil(r.thickness)) + margin}
	side := 2*s.reach + 1
	s.dense = make([]uint8, side*side)
	sin, cos := sincos(angle)
	length, half, far := float64(r.length), r.thickness/2, float64(margin)
	for k := range s.dense {
		at := pixel{k/side - s.reach, k%side - s.reach}
		dash := uint8(0)
		for point := range full {
			y := float64(at.y) + (float64(point/grid)+0.5)/grid - 0.5
			x := float64(at.x) + (float64(point%grid)+0.5)/grid - 0.5
			along := float64(y*sin) + float64(x*cos)
			across := math.Abs(float64(y*cos) - float64(x*sin))
			a, b := max(-along, along-length, 0), max(across-half, 0)
			if a == 0 && b == 0 {
				dash++
			}
			if float64(a*a)+float64(b*b) <= far*far {
				s.dense[k]++
			}
		}
		if dash > 0 {
			s.dash = append(s.dash, cover{at, dash})
		}
		if v := s.dense[k]; v > 0 {
			s.mask = append(s.mask, cover{at, v})
			if v == full {
				s.whole = append(s.whole, at)
				s.low = pixel{min(s.low.y, at.y), min(s.low.x, at.x)}
				s.high = pixel{max(s.high.y, at.y), max(s.high.x, at.x)}
			}
		}
	}
	return s
}

// table is what follows from the rules and a margin.
type table struct {
	margin  int
	degrees [360]*shape // dashes in the directions of -180 degrees and so on
	ends    []end       // pixels on the circle around a pivot, in the order of rows and columns
	disc    []pixel     // pixels within the margin
}

// end is where a dash may end, relative to its pivot.
type end struct {
	pixel
	angle float64 // from the pivot
	back  *shape  // the dash, drawn from its end
}

func newTable(r rules, margin int) *table {
	t := &table{margin: margin}
	for k := range t.degrees {
		t.degrees[k] = newShape(r, margin, float64(k-180)*math.Pi/180)
	}
	for y := -margin; y <= margin; y++ {
		for x := -margin; x <= margin; x++ {
			if y*y+x*x <= margin*margin {
				t.disc = append(t.disc, pixel{y, x})
			}
		}
	}
	radius := float64(r.length + margin)
	step := 360 / (2 * radius * math.Pi)
	for k := 0; float64(k)*step < 360; k++ {
		sin, cos := sincos(float64(k) * step * math.Pi / 180)
		t.ends = append(t.ends, end{pixel: pixel{int(math.Floor(radius * sin)), int(math.Floor(radius * cos))}})
	}
	slices.SortFunc(t.ends, func(a, b end) int { return cmp.Or(a.y-b.y, a.x-b.x) })
	t.ends = slices.Compact(t.ends)
	for k := range t.ends {
		e := &t.ends[k]
		e.angle = math.Atan2(float64(e.y), float64(e.x))
		e.back = newShape(r, margin, e.angle-math.Pi)
	}
	return t
}

// stamp is a dash at a place.
type stamp struct {
	*shape
	at pixel
}

// covers returns how much of a pixel the stamp's mask covers.
func (s *stamp) covers(p pixel) uint8 {
	y, x, side := p.y-s.at.y+s.reach, p.x-s.at.x+s.reach, 2*s.reach+1
	if y < 0 || y >= side || x < 0 || x >= side {
		return 0
	}
	return s.dense[y*side+x]
}

// bytes returns the picture with its brightest pixel at 255.
func (d *drawing) bytes() []uint8 {
	most := 0.0
	for _, v := range d.image {
		most = max(most, v)
	}
	out := make([]uint8, len(d.image))
	for t, v := range d.image {
		out[t] = uint8(v*255/most + 0.5)
	}
	return out
}
