package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/essmc/essmc/runtime/cpu"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// line is one contender in a figure. Points without a time are omitted.
type line struct {
	name  string
	x, y  []float64
	floor bool // dashed, without points
	kind  int  // above 0: a color, dashes and a glyph of its own
}

func (l *line) add(x, y float64) {
	if !math.IsNaN(y) {
		l.x, l.y = append(l.x, x), append(l.y, y)
	}
}

// colors are the colors of contenders, which color-blind readers can distinguish (Okabe and Ito).
var colors = map[string]color.Color{
	"ours":  color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	"torch": color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	"ort":   color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	"floor": color.RGBA{R: 0x60, G: 0x60, B: 0x60, A: 0xff},
	"other": color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
}

// kinds are the colors of lines of a kind, and glyphs those of their points: together they differ for 40 lines. Of the
// colors of Okabe and Ito, yellow is too light for lines.
var (
	kinds = []color.Color{
		color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
		color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
		color.RGBA{R: 0x00, G: 0x00, B: 0x00, A: 0xff}, color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff},
	}
	glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}}
)

// ticks are the measured values of x.
type ticks []float64

func (t ticks) Ticks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	for _, v := range t {
		if v >= lo && v <= hi {
			out = append(out, plot.Tick{Value: v, Label: short(v)})
		}
	}
	return out
}

// decades are the ticks of a logarithmic axis.
type decades struct{ unit string }

func (d decades) Ticks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, e)
			if v < lo*0.999 || v > hi*1.001 {
				continue
			}
			label := ""
			if k == 1 || hi/lo < 100 && (k == 2 || k == 5) {
				label = strconv.FormatFloat(v, 'g', 6, 64) + d.unit
			}
			out = append(out, plot.Tick{Value: v, Label: label})
		}
	}
	return out
}

// short returns 4096 as "4k", and similarly other powers of two and whole thousands.
func short(v float64) string {
	n := int(v)
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "M"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "k"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

const (
	figureWidth, figureHeight = 21 * vg.Centimeter, 11 * vg.Centimeter
	legendWidth               = 6 * vg.Centimeter // to the right of the plot
)

// drawFigure writes a figure with logarithmic axes. y is in milliseconds.
func drawFigure(dir, file, title, xlabel string, lines []line) (figure, error) {
	return drawing{title, xlabel, "time of one run (ms)"}.draw(dir, file, lines)
}

// drawing is the text of a figure.
type drawing struct{ title, xlabel, ylabel string }

// draw writes a figure with logarithmic axes.
func (d drawing) draw(dir, file string, lines []line) (figure, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.title, d.xlabel, d.ylabel
	p.Title.TextStyle.Font.Size, p.Title.Padding = 11, vg.Points(6)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = decades{}
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.Padding, legend.ThumbnailWidth = vg.Points(3), vg.Points(24)
	legend.TextStyle.Font.Size = 10
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{Y: 205}, color.Gray{Y: 205}
	p.Add(grid)
	var at ticks
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		if len(l.x) == 0 {
			continue
		}
		pts := make(plotter.XYs, len(l.x))
		for i := range l.x {
			pts[i] = plotter.XY{X: l.x[i], Y: l.y[i]}
			lo, hi = min(lo, l.y[i]), max(hi, l.y[i])
		}
		if len(l.x) > len(at) {
			at = l.x
		}
		drawn, points, err := plotter.NewLinePoints(pts)
		if err != nil {
			return figure{}, err
		}
		drawn.Color, drawn.Dashes = style(l)
		drawn.Width = vg.Points(1.6)
		points.Color, points.Shape, points.Radius = drawn.Color, draw.CircleGlyph{}, vg.Points(2.4)
		if l.kind > 0 {
			points.Shape, points.Radius = glyphs[(l.kind-1)/len(kinds)%len(glyphs)], vg.Points(3)
		}
		p.Add(drawn)
		if l.floor {
			legend.Add(l.name, drawn)
			continue
		}
		p.Add(points)
		legend.Add(l.name, drawn, points)
	}
	if len(at) == 0 {
		return figure{}, fmt.Errorf("figure %s: nothing was measured", file)
	}
	p.Y.Min, p.Y.Max = lo/1.3, hi*1.3
	p.X.Min, p.X.Max = at[0]/1.1, at[len(at)-1]*1.1
	p.X.Tick.Marker = at
	c := vgsvg.New(figureWidth, figureHeight)
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	p.Draw(draw.Crop(dc, vg.Points(6), -legendWidth, vg.Points(6), -vg.Points(6)))
	legend.Draw(draw.Crop(dc, figureWidth-legendWidth+vg.Points(10), 0, 0, -vg.Points(26)))
	file = strings.TrimSuffix(file, ".svg") + "-" + cpu.Kernels() + ".svg" // each variant of the kernels has its own
	return figure{file, d.title}, write(filepath.Join(dir, file), c)
}

// style returns a line's color, by the first word of its name, and its dashes, for several threads.
func style(l line) (color.Color, []vg.Length) {
	if l.kind > 0 {
		if (l.kind-1)/len(kinds)%2 == 1 {
			return kinds[(l.kind-1)%len(kinds)], []vg.Length{vg.Points(6), vg.Points(2)}
		}
		return kinds[(l.kind-1)%len(kinds)], nil
	}
	key, dashes := "other", []vg.Length(nil)
	for _, k := range []struct{ prefix, key string }{{"essmc", "ours"}, {"torch", "torch"}, {"ONNX Runtime", "ort"},
		{"floor", "floor"}} {
		if strings.HasPrefix(l.name, k.prefix) {
			key = k.key
		}
	}
	switch {
	case l.floor:
		dashes = []vg.Length{vg.Points(2), vg.Points(2)}
	case strings.HasSuffix(l.name, " threads"):
		dashes = []vg.Length{vg.Points(6), vg.Points(2)}
	}
	return colors[key], dashes
}

func write(path string, content io.WriterTo) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := content.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
