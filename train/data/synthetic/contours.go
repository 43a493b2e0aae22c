package synthetic

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/internal/philox"
)

// Trials, as published: of a place for a dash, and of a short contour. The long ones are drawn until they are complete;
// maxDrawings is far beyond what that takes.
const (
	dashTrials  = 3
	shortTrials = 5
	maxDrawings = 1 << 20
	border      = 1 // pixels at the sides of a picture that stay free
)

// drawing is a picture that is being drawn.
type drawing struct {
	rules
	*table
	size     int
	r        *philox.Source
	image    []float64
	mask     []uint8 // what the margins of dashes cover, of full
	contours []*contour
	class    int
	dots     [2]pixel
}

// contour is dashes that follow each other.
type contour struct {
	origin     pixel // where it begins
	pivot      pixel // a margin before the newest dash
	angle      float64
	tip        pixel // where it ends
	last       *stamp
	all        []*stamp
	brightness float64
}

// draw draws a sample.
func (p *Pathfinder) draw(ctx context.Context, i int) (*drawing, error) {
	d := &drawing{rules: p.r, size: p.o.Size, r: random(p.o.Seed, streamPathfinder, i)}
	d.class = d.r.IntN(2)
	d.table = p.tables[d.r.IntN(len(p.tables))]
	for range maxDrawings {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !d.long(p.o.Contour) {
			continue
		}
		short := p.o.Contour / 3
		for range d.total / short {
			for range shortTrials {
				if d.short(short) {
					break
				}
			}
		}
		d.paint()
		return d, nil
	}
	return nil, fmt.Errorf("Pathfinder: sample %d: expected two contours of %d dashes, found none in %d trials",
		i, p.o.Contour, maxDrawings)
}

// long draws the two long contours, in turns, on a new mask.
func (d *drawing) long(dashes int) bool {
	n := d.size
	if d.contours = nil; d.mask == nil {
		d.mask = make([]uint8, n*n)
	}
	clear(d.mask)
	for k := range n {
		for side := range border {
			for _, at := range []int{side*n + k, (n-1-side)*n + k, k*n + side, k*n + n - 1 - side} {
				d.mask[at] = full
			}
		}
	}
	first := d.beginAmid(2 * d.seeds)
	if first == nil {
		return false
	}
	second := d.beginNear(first.origin)
	if second == nil {
		return false
	}
	pair := []*contour{first, second}
	for range dashes - 1 {
		for k, c := range pair {
			if !d.extend(c, pair[1-k].last) {
				return false
			}
		}
	}
	for _, c := range pair {
		c.brightness = d.rules.long
		d.occupy(c.last)
	}
	d.contours = pair
	return true
}

// short draws a short contour. If it is not complete, the mask is as before.
func (d *drawing) short(dashes int) bool {
	before := slices.Clone(d.mask)
	c := d.begin()
	for k := 1; c != nil && k < dashes; k++ {
		if !d.extend(c, nil) {
			c = nil
		}
	}
	if c == nil {
		d.mask = before
		return false
	}
	c.brightness = d.rules.short
	d.occupy(c.last)
	d.contours = append(d.contours, c)
	return true
}

// inside reports whether a place is in the picture.
func (d *drawing) inside(p pixel) bool { return p.y >= 0 && p.y < d.size && p.x >= 0 && p.x < d.size }

// started returns a contour with one dash, or nil if that leaves the picture.
func (d *drawing) started(at pixel, dash *shape) *contour {
	head := at.along(dash.angle, d.length)
	pivot := head.along(dash.angle-math.Pi, d.length+d.margin)
	if !d.inside(at) || !d.inside(head) || !d.inside(pivot) {
		return nil
	}
	s := &stamp{dash, at}
	return &contour{origin: at, pivot: pivot, angle: dash.angle, tip: head, last: s, all: []*stamp{s}}
}

// beginAmid begins the first contour, where its dash and margin are so many pixels away from the sides. Nothing is
// occupied there.
func (d *drawing) beginAmid(sides int) *contour {
	for range dashTrials {
		dash := d.degrees[d.r.IntN(len(d.degrees))]
		height := d.size - 2*sides - (dash.high.y - dash.low.y)
		width := d.size - 2*sides - (dash.high.x - dash.low.x)
		if height < 1 || width < 1 {
			return nil
		}
		k := d.r.IntN(height * width)
		if c := d.started(pixel{sides - dash.low.y + k/width, sides - dash.low.x + k%width}, dash); c != nil {
			return c
		}
	}
	return nil
}

// begin begins a contour anywhere, where its dash and margin cover no occupied pixel. It gives up if less than a
// hundredth of the picture is free.
func (d *drawing) begin() *contour {
	free := 0
	for _, v := range d.mask {
		if v < taken {
			free++
		}
	}
	if free*100 < len(d.mask) {
		return nil
	}
	var places []pixel
	for range dashTrials {
		dash := d.degrees[d.r.IntN(len(d.degrees))]
		places = places[:0]
		for at, v := range d.mask {
			if p := (pixel{at / d.size, at % d.size}); v < taken && d.fits(dash, p) {
				places = append(places, p)
			}
		}
		if len(places) == 0 {
			return nil
		}
		if c := d.started(places[d.r.IntN(len(places))], dash); c != nil {
			return c
		}
	}
	return nil
}

// fits reports whether what a dash and its margin cover as a whole is free, if it begins at a place.
func (d *drawing) fits(dash *shape, p pixel) bool {
	for _, o := range dash.whole {
		if q := (pixel{p.y + o.y, p.x + o.x}); !d.inside(q) || d.mask[q.y*d.size+q.x] >= taken {
			return false
		}
	}
	return true
}

// beginNear begins the second long contour at the rules' distance from the first one, in any direction.
func (d *drawing) beginNear(origin pixel) *contour {
	for range dashTrials {
		dash := d.degrees[d.r.IntN(len(d.degrees))]
		sin, cos := sincos(float64(d.r.IntN(360)) * math.Pi / 180)
		at := pixel{int(math.RoundToEven(float64(origin.y) + float64(float64(d.seeds)*sin))),
			int(math.RoundToEven(float64(origin.x) + float64(float64(d.seeds)*cos)))}
		if c := d.started(at, dash); c != nil {
			return c
		}
	}
	return nil
}

// extend adds a dash to a contour, which must not clash with the mask and with another stamp.
func (d *drawing) extend(c *contour, other *stamp) bool {
	pivot := c.pivot.along(c.angle, d.length+2*d.margin)
	sums, sum := make([]float64, len(d.ends)), 0.0 // the probabilities up to each end, not normalised
	for k, e := range d.ends {
		if p := (pixel{pivot.y + e.y, pivot.x + e.x}); d.inside(p) {
			turn := math.Abs(e.angle - c.angle)
			turn = min(turn, math.Abs(2*math.Pi-turn)) * d.continuity
			if turn < math.Pi/2 {
				w := math.Cos(turn)
				sum += float64(w * w * d.free(p))
			}
		}
		sums[k] = sum
	}
	if sum < 1e-4 {
		return false
	}
	for range dashTrials {
		random := d.r.Float64() * sum
		k, _ := slices.BinarySearchFunc(sums, random, func(s, r float64) int {
			if s > r {
				return 1
			}
			return -1
		})
		e := d.ends[k]
		s := &stamp{e.back, pixel{pivot.y + e.y, pivot.x + e.x}}
		if d.clashes(s, other) {
			continue
		}
		d.occupy(c.last)
		c.pivot, c.angle, c.tip, c.last = pivot, e.angle, s.at, s
		c.all = append(c.all, s)
		return true
	}
	return false
}

// free returns which part of a pixel is free, as far as no occupied one is within the margin.
func (d *drawing) free(p pixel) float64 {
	most := uint8(0)
	for _, o := range d.disc {
		if q := (pixel{p.y + o.y, p.x + o.x}); d.inside(q) {
			most = max(most, d.mask[q.y*d.size+q.x])
		}
	}
	return 1 - float64(most)/full
}

// each calls f for the pixels that are covered from a place on, as far as they are in the picture.
func (d *drawing) each(covers []cover, from pixel, f func(at int, p pixel, v uint8)) {
	for _, c := range covers {
		if p := (pixel{from.y + c.y, from.x + c.x}); d.inside(p) {
			f(p.y*d.size+p.x, p, c.v)
		}
	}
}

// clashes reports whether a stamp and the mask, or another stamp, cover a pixel twice.
func (d *drawing) clashes(s, other *stamp) (clashed bool) {
	d.each(s.mask, s.at, func(at int, p pixel, v uint8) {
		under := d.mask[at]
		if other != nil {
			under = max(under, other.covers(p))
		}
		clashed = clashed || under+v > clash
	})
	return clashed
}

// occupy adds a stamp to the mask.
func (d *drawing) occupy(s *stamp) {
	d.each(s.mask, s.at, func(at int, _ pixel, v uint8) { d.mask[at] = max(d.mask[at], v) })
}

// paint draws the picture: the contours, and the dots at the ends that the class asks for.
func (d *drawing) paint() {
	d.image = make([]float64, d.size*d.size)
	for _, c := range d.contours {
		for _, s := range c.all {
			d.each(s.dash, s.at, func(at int, _ pixel, v uint8) { d.image[at] = max(d.image[at], c.brightness*float64(v)/full) })
		}
	}
	from := d.r.IntN(2)
	to := from
	if d.class == 0 {
		to = 1 - from
	}
	d.dots = [2]pixel{d.contours[from].origin, d.contours[to].tip}
	for at := range d.image {
		for _, dot := range d.dots {
			n := 0
			for point := range full {
				y := float64(at/d.size-dot.y) + (float64(point/grid)+0.5)/grid - 0.5
				x := float64(at%d.size-dot.x) + (float64(point%grid)+0.5)/grid - 0.5
				if float64(y*y)+float64(x*x) <= d.marker*d.marker {
					n++
				}
			}
			d.image[at] = max(d.image[at], float64(n)/full)
		}
	}
}
