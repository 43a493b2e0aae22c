package states

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ops/essm/modes"
)

// report is two layers: one of two heads, and one of which only rates are known.
func report() *modes.Report {
	mode := func(step, re, im, memory, gain float64) modes.Mode {
		return modes.Mode{Step: step, Lambda: complex(re, im), Eigen: complex(math.Exp(re*step)*math.Cos(im*step), math.Exp(re*step)*math.Sin(im*step)),
			Memory: memory, Frequency: 0.01, Gain: gain}
	}
	return &modes.Report{Systems: []modes.System{
		{Layer: "layers.0", Name: "y", Kind: "diagonal", Method: "zoh", Direction: "forward", Inputs: 1, Outputs: 1,
			Frequencies: []float64{0, 0.1, 0.5}, Heads: []modes.Head{
				{Modes: []modes.Mode{mode(0.1, -0.5, 2, 20, 3), mode(0.1, -1, 0, 10, 4)}, Response: []float64{1, 5, 2}},
				{Head: 1, Modes: []modes.Mode{mode(0.01, -0.5, 2, 200, 3), mode(0.01, -1, 0, math.Inf(1), 4)}, Response: []float64{7, 0.5, 2}}}},
		{Layer: "<b>&", Name: "z", Kind: "selective", Direction: "backward", Note: "Δ depends", Heads: []modes.Head{
			{Modes: []modes.Mode{{Lambda: -3, Eigen: complex(math.NaN(), 0), Memory: math.NaN(), Gain: math.NaN()}}}}},
	}, Others: []string{"GRU: gates"}}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := CSV(&b, report()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 || strings.Join(rows[0], ",") != CSVHeader {
		t.Fatalf("%d rows, the first %v", len(rows), rows[0])
	}
	if got, want := strings.Join(rows[1][:9], ","), "layers.0,y,forward,0,0,0,0.1,-0.5,2"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if x, err := strconv.ParseFloat(rows[1][9], 64); err != nil || x != math.Exp(-0.05)*math.Cos(0.2) {
		t.Errorf("λ̄ is %s", rows[1][9])
	}
	if got, want := strings.Join(rows[5], ","), "<b>&,z,backward,0,0,0,,-3,0,,0,,0,"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, report()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"layers.0", "zoh, diagonal, 2 × 2 states", "0.01 … 0.1", "-1 … -0.5", "∞", "1 … 7", "5 … 7",
		"<b>&, backward", "Δ depends", "GRU: gates", "Systems by head"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestHTML(t *testing.T) {
	var b, again bytes.Buffer
	if err := HTML(&b, "model <x>", report()); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&again, "model <x>", report()); err != nil || again.String() != b.String() {
		t.Errorf("two pages of a report differ (%v)", err)
	}
	page := b.String()
	for _, what := range []string{"<script", "<b>&", "<x>", "src=", "<link", "@import"} {
		if strings.Contains(page, what) {
			t.Errorf("the page contains %q", what)
		}
	}
	rest := regexp.MustCompile(`xmlns(:xlink)?="[^"]*"`).ReplaceAllString(page, "")
	if m := regexp.MustCompile(`(?i)https?://|url\([^#]`).FindString(rest); m != "" {
		t.Errorf("the page refers to the outside: %q", m)
	}
	if n := strings.Count(page, "<svg "); n != 2 {
		t.Errorf("%d figures, expected one for each system", n)
	}
	// What is between the tags of the body is well-formed, figures included.
	d := xml.NewDecoder(strings.NewReader(page[strings.Index(page, "<body>") : strings.Index(page, "</body>")+len("</body>")]))
	d.Entity = xml.HTMLEntity
	texts := 0
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "text" {
			texts++
		}
	}
	if texts < 2*5*3 {
		t.Errorf("%d labels in ten panels", texts)
	}
}

func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := PNG(&b, report()); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	colors := map[[3]uint32]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			colors[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	if colors[[3]uint32{213, 94, 0}] < 100 || colors[[3]uint32{0, 114, 178}] < 100 {
		t.Errorf("the unit circle or the histograms are missing")
	}
}
