package demo

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/essmc/essmc/internal/atomicfile"
)

// Colors that color-blind readers can distinguish (Okabe and Ito).
var (
	blue   = color.NRGBA{0, 114, 178, 255}
	orange = color.NRGBA{213, 94, 0, 255}
	green  = color.NRGBA{0, 158, 115, 255}
	pink   = color.NRGBA{204, 121, 167, 255}
	grey   = color.NRGBA{120, 120, 120, 255}
)

const (
	figureWidth  = 7.5 * vg.Inch
	figureHeight = 5.5 * vg.Inch
)

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = 11
	p.Title.Padding = vg.Points(6)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	return p
}

// points returns every stride-th step of state s (0 or 1) against time, from step first on.
func points(y []float64, s, first, stride int) plotter.XYs {
	var xy plotter.XYs
	for t := first; t < len(y)/2; t += stride {
		xy = append(xy, plotter.XY{X: float64(t) * step, Y: y[2*t+s]})
	}
	return xy
}

func line(xy plotter.XYs, c color.Color, width vg.Length, dashes ...vg.Length) (*plotter.Line, error) {
	l, err := plotter.NewLine(xy)
	if err != nil {
		return nil, err
	}
	l.Color, l.Width, l.Dashes = c, width, dashes
	return l, nil
}

func marks(xy plotter.XYs, c color.Color, shape draw.GlyphDrawer, radius vg.Length) (*plotter.Scatter, error) {
	s, err := plotter.NewScatter(xy)
	if err != nil {
		return nil, err
	}
	s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: shape}
	return s, nil
}

// drawEquivalence draws the four forms on top of each other, in one panel for each state.
func drawEquivalence(path string, results []*result) error {
	var panels []*plot.Plot
	for s := range 2 {
		p := newPlot("", "", fmt.Sprintf("state %d", s+1))
		if s == 0 {
			p.Title.Text = "Four forms of one system: the curves lie on each other"
		} else {
			p.X.Label.Text = "time (s)"
		}
		full, err := line(points(results[0].y, s, 0, 4), blue, vg.Points(4.5))
		if err != nil {
			return err
		}
		full.Color = color.NRGBA{0, 114, 178, 90}
		conv, err := line(points(results[2].y, s, 0, 4), orange, vg.Points(1.2))
		if err != nil {
			return err
		}
		diagonal, err := marks(points(results[1].y, s, 20, 80), green, draw.CrossGlyph{}, vg.Points(4))
		if err != nil {
			return err
		}
		byFFT, err := marks(points(results[3].y, s, 60, 80), pink, draw.RingGlyph{}, vg.Points(4))
		if err != nil {
			return err
		}
		p.Add(full, conv, diagonal, byFFT)
		p.Legend.Add(results[0].name, full)
		p.Legend.Add(results[1].name, diagonal)
		p.Legend.Add(results[2].name, conv)
		p.Legend.Add(results[3].name, byFFT)
		p.X.Min, p.X.Max = 0, duration
		p.Y.Max += 0.55 * (p.Y.Max - p.Y.Min) // room for the legend
		if s == 1 {
			p.Legend = plot.NewLegend()
			p.Y.Max -= 0.33 * (p.Y.Max - p.Y.Min)
		}
		panels = append(panels, p)
	}
	return save(path, panels)
}

// drawConvergence draws both states from the right and the wrong initial state, and the decay of the difference.
func drawConvergence(path string, c *convergence) error {
	p := newPlot("A wrong initial state is forgotten", "", "states")
	labels := []string{"state 1", "state 2"}
	for s := range 2 {
		col := []color.Color{blue, green}[s]
		original, err := line(points(c.original, s, 0, 4), col, vg.Points(1.6))
		if err != nil {
			return err
		}
		biased, err := line(points(c.biased, s, 0, 4), orange, vg.Points(1.6), vg.Points(5), vg.Points(3))
		if err != nil {
			return err
		}
		p.Add(original, biased)
		p.Legend.Add(labels[s]+", started at [1, 0]", original)
		if s == 1 {
			p.Legend.Add("convolution, started at [0, 0]", biased)
		}
	}
	p.X.Min, p.X.Max = 0, duration
	p.Y.Max += 0.35 * (p.Y.Max - p.Y.Min)
	q := newPlot("", "time (s)", "‖difference‖")
	var gap, rate plotter.XYs
	for t := 0; t < len(c.gap); t += 4 {
		at := float64(t+1) * step
		gap = append(gap, plotter.XY{X: at, Y: c.gap[t]})
		rate = append(rate, plotter.XY{X: at, Y: math.Exp(c.slowest * at)})
	}
	measured, err := line(gap, orange, vg.Points(2))
	if err != nil {
		return err
	}
	predicted, err := line(rate, grey, vg.Points(1.2), vg.Points(2), vg.Points(2))
	if err != nil {
		return err
	}
	q.Add(measured, predicted)
	q.Legend.Add("difference of the states", measured)
	q.Legend.Add(fmt.Sprintf("exp(%.3f t), the slowest eigenvalue", c.slowest), predicted)
	q.Y.Scale, q.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 1}
	q.X.Min, q.X.Max = 0, duration
	return save(path, []*plot.Plot{p, q})
}

// save draws the panels below each other. The extension of path selects the format.
func save(path string, panels []*plot.Plot) error {
	var dc draw.Canvas
	var out io.WriterTo
	if filepath.Ext(path) == ".svg" {
		c := vgsvg.New(figureWidth, figureHeight)
		dc, out = draw.New(c), c
	} else {
		c := vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(160),
			vgimg.UseBackgroundColor(color.White))
		dc, out = draw.New(c), vgimg.PngCanvas{Canvas: c}
	}
	plots := make([][]*plot.Plot, len(panels))
	for i, p := range panels {
		plots[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadX: vg.Points(6), PadY: vg.Points(8), PadTop: vg.Points(6),
		PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(14)}
	for i, c := range plot.Align(plots, tiles, dc) {
		panels[i].Draw(c[0])
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := out.WriteTo(w)
		return err
	})
}
