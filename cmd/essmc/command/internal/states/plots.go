package states

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/essmc/essmc/ops/essm/modes"
)

// Colors that color-blind readers can distinguish (Okabe and Ito).
var (
	blue   = color.NRGBA{0, 114, 178, 255}
	faint  = color.NRGBA{0, 114, 178, 90}
	orange = color.NRGBA{213, 94, 0, 255}
)

const (
	panelWidth  = 2.7 * vg.Inch
	panelHeight = 2.5 * vg.Inch
	// maxPoints is the number of points of a plot, and maxLines that of its lines; of more, every k-th is drawn.
	maxPoints = 700
	maxLines  = 24
)

// figure is the panels of one system, in a row.
type figure []*plot.Plot

func newFigure(s *modes.System) figure {
	return figure{continuousPlane(s), discretePlane(s), stepPlot(s), memoryPlot(s), gainPlot(s)}
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 10, 9, 9
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 8, 8
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		f.Variant = "Sans"
	}
	p.Title.Padding = vg.Points(4)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{232}, color.Gray{232}
	p.Add(grid)
	return p
}

// values collects a number of each mode, if it is finite.
func values(s *modes.System, f func(*modes.Mode) float64) (out []float64) {
	for h := range s.Heads {
		for i := range s.Heads[h].Modes {
			if x := f(&s.Heads[h].Modes[i]); !math.IsNaN(x) && !math.IsInf(x, 0) {
				out = append(out, x)
			}
		}
	}
	return out
}

// scatter adds points, with their conjugates, which are not stored.
func scatter(p *plot.Plot, s *modes.System, f func(*modes.Mode) complex128) {
	var xy plotter.XYs
	for h := range s.Heads {
		for i := range s.Heads[h].Modes {
			if z := f(&s.Heads[h].Modes[i]); !math.IsNaN(real(z)+imag(z)) && !math.IsInf(real(z)+imag(z), 0) {
				xy = append(xy, plotter.XY{X: real(z), Y: math.Abs(imag(z))})
			}
		}
	}
	xy = thin(xy, maxPoints)
	for _, at := range xy[:len(xy):len(xy)] {
		if at.Y != 0 {
			xy = append(xy, plotter.XY{X: at.X, Y: -at.Y})
		}
	}
	if len(xy) == 0 {
		return
	}
	g, err := plotter.NewScatter(xy)
	if err != nil {
		return // there are numbers only
	}
	g.GlyphStyle = draw.GlyphStyle{Color: faint, Radius: vg.Points(1.6), Shape: draw.CircleGlyph{}}
	p.Add(g)
}

func thin[T any](v []T, most int) []T {
	if len(v) <= most {
		return v
	}
	out := make([]T, 0, most)
	for i := range most {
		out = append(out, v[i*len(v)/most])
	}
	return out
}

func addLine(p *plot.Plot, xy plotter.XYs, c color.Color, width vg.Length, dashes ...vg.Length) {
	if len(xy) < 2 {
		return
	}
	if l, err := plotter.NewLine(xy); err == nil {
		l.Color, l.Width, l.Dashes = c, width, dashes
		p.Add(l)
	}
}

// continuousPlane shows λ, with the boundary of the stable half-plane.
func continuousPlane(s *modes.System) *plot.Plot {
	title := "continuous eigenvalues λ"
	known := slices.ContainsFunc(s.Heads, func(h modes.Head) bool {
		return slices.ContainsFunc(h.Modes, func(m modes.Mode) bool { return m.Step > 0 })
	})
	if !known && s.Kind != "selective" {
		title = "eigenvalues per step, λΔ"
	}
	p := newPlot(title, "real part", "imaginary part")
	scatter(p, s, func(m *modes.Mode) complex128 { return m.Lambda })
	p.X.Max = max(p.X.Max, 0.06*max(-p.X.Min, 1e-9))
	if !(p.Y.Max > p.Y.Min) || math.IsInf(p.Y.Max, 0) {
		p.Y.Min, p.Y.Max = -1, 1
	}
	addLine(p, plotter.XYs{{X: 0, Y: p.Y.Min}, {X: 0, Y: p.Y.Max}}, orange, vg.Points(1))
	return p
}

// discretePlane shows λ̄, with the unit circle.
func discretePlane(s *modes.System) *plot.Plot {
	p := newPlot("discrete eigenvalues λ̄", "real part", "imaginary part")
	var circle plotter.XYs
	for i := range 121 {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / 120)
		circle = append(circle, plotter.XY{X: cos, Y: sin})
	}
	addLine(p, circle, orange, vg.Points(1))
	scatter(p, s, func(m *modes.Mode) complex128 { return m.Eigen })
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = min(p.X.Min, -1.08), max(p.X.Max, 1.08), min(p.Y.Min, -1.08),
		max(p.Y.Max, 1.08)
	return p
}

// histogram shows positive numbers on a logarithmic axis.
func histogram(title, x string, v []float64) *plot.Plot {
	p := newPlot(title, x, "states")
	var logs plotter.Values
	for _, y := range v {
		if y > 0 {
			logs = append(logs, math.Log10(y))
		}
	}
	p.X.Tick.Marker = powers{}
	if len(logs) == 0 {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
		p.Title.Text += ": none"
		return p
	}
	if slices.Max(logs)-slices.Min(logs) < 0.02 { // one bar
		at := logs[0]
		p.X.Min, p.X.Max = at-0.5, at+0.5
		addLine(p, plotter.XYs{{X: at, Y: 0}, {X: at, Y: float64(len(logs))}}, blue, vg.Points(6))
		return p
	}
	h, err := plotter.NewHist(logs, 24)
	if err != nil {
		return p
	}
	h.FillColor, h.LineStyle.Width, h.LineStyle.Color = blue, vg.Points(0.4), color.White
	p.Add(h)
	p.Y.Min = 0
	return p
}

// powers labels an axis of logarithms.
type powers struct{}

// Ticks marks the powers of ten, and where the axis is short also twice and five times these.
func (powers) Ticks(lo, hi float64) (out []plot.Tick) {
	step := 1
	for hi-lo > 5*float64(step) {
		step++
	}
	for k := int(math.Floor(lo)); float64(k) <= hi; k++ {
		for _, m := range []float64{1, 2, 5} {
			x := float64(k) + math.Log10(m)
			if x < lo-1e-9 || x > hi+1e-9 || m > 1 && hi-lo > 2.2 || k%step != 0 {
				continue
			}
			out = append(out, plot.Tick{Value: x, Label: powerLabel(k, m)})
		}
	}
	return out
}

// powerLabel writes m times a power of ten: as a number if that is short, or as 10⁵.
func powerLabel(k int, m float64) string {
	if k >= -3 && k <= 4 {
		return strconv.FormatFloat(m*math.Pow(10, float64(k)), 'g', 4, 64)
	}
	label := "10" + strings.Map(func(r rune) rune {
		if r == '-' {
			return '⁻'
		}
		return []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0']
	}, strconv.Itoa(k))
	if m > 1 {
		label = strconv.Itoa(int(m)) + "·" + label
	}
	return label
}

func stepPlot(s *modes.System) *plot.Plot {
	return histogram("step sizes Δ", "Δ", values(s, func(m *modes.Mode) float64 { return m.Step }))
}

func memoryPlot(s *modes.System) *plot.Plot {
	return histogram("memory lengths", "steps to 1/e", values(s, func(m *modes.Mode) float64 { return m.Memory }))
}

// gainPlot shows the amplification of each head by frequency.
func gainPlot(s *modes.System) *plot.Plot {
	p := newPlot("gain of the heads", "cycles per step", "‖H‖")
	p.X.Tick.Marker, p.Y.Tick.Marker = powers{}, powers{}
	drawn := false
	for _, h := range thin(s.Heads, maxLines) {
		var xy plotter.XYs
		for i, g := range h.Response {
			if f := s.Frequencies[i]; f > 0 && g > 0 && !math.IsInf(g, 0) {
				xy = append(xy, plotter.XY{X: math.Log10(f), Y: math.Log10(g)})
			}
		}
		drawn = drawn || len(xy) > 1
		addLine(p, xy, faint, vg.Points(0.9))
	}
	if !drawn {
		p.Title.Text += ": not known"
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -5, 0, -1, 1
	}
	if p.Y.Max-p.Y.Min < 0.5 {
		middle := (p.Y.Max + p.Y.Min) / 2
		p.Y.Min, p.Y.Max = middle-0.25, middle+0.25
	}
	return p
}

// drawOn draws figures below each other.
func drawOn(figures []figure, c draw.Canvas) {
	if len(figures) == 0 {
		return
	}
	rows := make([][]*plot.Plot, len(figures))
	for i, f := range figures {
		rows[i] = f
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: len(rows[0]), PadX: vg.Points(9), PadY: vg.Points(10),
		PadTop: vg.Points(5), PadBottom: vg.Points(4), PadLeft: vg.Points(3), PadRight: vg.Points(8)}
	for i, canvases := range plot.Align(rows, tiles, c) {
		for j, canvas := range canvases {
			rows[i][j].Draw(canvas)
		}
	}
}

// svg returns a figure as an element for a page, without the head of an SVG file.
func svg(f figure) (string, error) {
	c := vgsvg.New(panelWidth*vg.Length(len(f)), panelHeight)
	drawOn([]figure{f}, draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	text := b.Bytes()
	if i := bytes.Index(text, []byte("<svg")); i > 0 {
		text = text[i:]
	}
	return string(bytes.ReplaceAll(text, []byte("<svg "), []byte("<svg role=\"img\" "))), nil
}

// maxRows bounds the systems in a picture.
const maxRows = 48

// PNG draws a row of panels for each system.
func PNG(w io.Writer, r *modes.Report) error {
	var figures []figure
	for i := range r.Systems[:min(len(r.Systems), maxRows)] {
		s := &r.Systems[i]
		f := newFigure(s)
		f[0].Title.Text = title(s) + ": " + f[0].Title.Text
		figures = append(figures, f)
	}
	n := max(len(figures), 1)
	c := vgimg.NewWith(vgimg.UseWH(5*panelWidth, vg.Length(n)*panelHeight), vgimg.UseDPI(110),
		vgimg.UseBackgroundColor(color.White))
	drawOn(figures, draw.New(c))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}
