// Package states writes the systems of a model for people: as tables, as CSV, as a picture, and as a page with figures
// like those of papers.
//
// It imports ops/essm/modes, gonum.org/v1/plot, and the table printer of the command. Equal reports give equal bytes.
package states

import (
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/ops/essm/modes"
)

// CSVHeader is the first line of a CSV file.
const CSVHeader = "layer,system,direction,channel,head,state,step,lambda_re,lambda_im,eigen_re,eigen_im," +
	"memory_steps,frequency,gain"

// CSV writes a row for each state. Numbers that are not known are empty.
func CSV(w io.Writer, r *modes.Report) error {
	if _, err := io.WriteString(w, CSVHeader+"\n"); err != nil {
		return err
	}
	c := csv.NewWriter(w)
	f := func(x float64) string {
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	for _, s := range r.Systems {
		for _, h := range s.Heads {
			for i, m := range h.Modes {
				step := m.Step
				if step == 0 {
					step = math.NaN()
				}
				if err := c.Write([]string{s.Layer, s.Name, s.Direction, strconv.Itoa(h.Channel), strconv.Itoa(h.Head),
					strconv.Itoa(i), f(step), f(real(m.Lambda)), f(imag(m.Lambda)), f(real(m.Eigen)), f(imag(m.Eigen)),
					f(m.Memory),
					f(m.Frequency), f(m.Gain)}); err != nil {
					return err
				}
			}
		}
	}
	c.Flush()
	return c.Error()
}

// number returns a number with three digits; "–" if it is not known.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case math.IsInf(x, 0):
		return "∞"
	case x != 0 && (math.Abs(x) >= 1e5 || math.Abs(x) < 1e-3):
		return strconv.FormatFloat(x, 'e', 2, 64)
	}
	if math.Abs(x) >= 999.5 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// span returns the least and the largest number; empty numbers are left out.
func span(v []float64) string {
	v = slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(v) == 0 {
		return "–"
	}
	lo, hi := number(slices.Min(v)), number(slices.Max(v))
	if lo == hi {
		return lo
	}
	return lo + " … " + hi
}

// median returns the middle number; NaN if there is none.
func median(v []float64) float64 {
	v = slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// each collects a number of each mode of some heads.
func each(heads []modes.Head, f func(modes.Mode) float64) (out []float64) {
	for _, h := range heads {
		for _, m := range h.Modes {
			out = append(out, f(m))
		}
	}
	return out
}

func step(m modes.Mode) float64 {
	if m.Step == 0 {
		return math.NaN()
	}
	return m.Step
}

func size(m modes.Mode) float64   { return math.Hypot(real(m.Eigen), imag(m.Eigen)) }
func memory(m modes.Mode) float64 { return m.Memory }

// row returns the cells that a layer and a head have in common.
func row(heads []modes.Head) []string {
	var peak, dc []float64
	for i := range heads {
		peak, dc = append(peak, heads[i].Peak()), append(dc, heads[i].DC())
	}
	m := each(heads, memory)
	largest := math.NaN()
	if known := slices.DeleteFunc(slices.Clone(m), math.IsNaN); len(known) > 0 {
		largest = slices.Max(known)
	}
	return []string{span(each(heads, step)), span(each(heads, func(m modes.Mode) float64 { return real(m.Lambda) })),
		span(each(heads, func(m modes.Mode) float64 { return math.Abs(imag(m.Lambda)) })), span(each(heads, size)),
		number(median(m)), number(largest), span(dc), span(peak)}
}

// titles are those of row's cells.
var titles = []string{"Δ", "Re λ", "|Im λ|", "|λ̄|", "memory", "longest", "gain at 0", "peak gain"}

// title names a system by its layer and, if it has one, its direction.
func title(s *modes.System) string {
	name := s.Layer
	if name == "" {
		name = s.Name
	}
	if s.Direction == "backward" {
		name += ", backward"
	}
	return name
}

// form describes a system: "zoh, diagonal, 32 heads of 4 states".
func form(s *modes.System) string {
	states := 0
	if len(s.Heads) > 0 {
		states = len(s.Heads[0].Modes)
	}
	parts := []string{s.Kind, fmt.Sprintf("%d × %d states", len(s.Heads), states)}
	if s.Method != "" {
		parts = append([]string{s.Method}, parts...)
	}
	return strings.Join(parts, ", ")
}

// shownHeads is the number of heads up to which Text lists them.
const shownHeads = 64

// Text prints a table of the layers and, of small models, one of the heads.
func Text(w io.Writer, r *modes.Report) error {
	columns := []table.Column{{Title: "layer", Width: 28}, {Title: "system", Width: 34}}
	for _, t := range titles {
		columns = append(columns, table.Column{Title: t, Right: true})
	}
	var rows [][]string
	heads := 0
	for i := range r.Systems {
		s := &r.Systems[i]
		rows = append(rows, append([]string{title(s), form(s)}, row(s.Heads)...))
		heads += len(s.Heads)
	}
	fmt.Fprintf(w, "Systems by layer; memory in steps\n")
	if err := table.Print(w, columns, rows); err != nil {
		return err
	}
	for _, n := range notes(r) {
		fmt.Fprintf(w, "  %s\n", n)
	}
	if heads == 0 || heads > shownHeads {
		return nil
	}
	rows, columns[1] = nil, table.Column{Title: "head", Right: true}
	for i := range r.Systems {
		s := &r.Systems[i]
		for k := range s.Heads {
			rows = append(rows, append([]string{title(s), headName(&s.Heads[k])}, row(s.Heads[k:k+1])...))
		}
	}
	fmt.Fprintf(w, "\nSystems by head\n")
	return table.Print(w, columns, rows)
}

func headName(h *modes.Head) string {
	if h.Channel > 0 {
		return fmt.Sprintf("%d.%d", h.Channel, h.Head)
	}
	return strconv.Itoa(h.Head)
}

// notes lists what readers should know, each note once, with the layers of others.
func notes(r *modes.Report) (out []string) {
	unknown := false
	for _, s := range r.Systems {
		if s.Note != "" && !slices.Contains(out, s.Note) {
			out = append(out, s.Note)
		}
		unknown = unknown || math.IsNaN(median(each(s.Heads, step))) && s.Kind != "selective"
	}
	if unknown {
		out = append(out, "the model has only discrete systems: λ is λΔ, the eigenvalue per step, and Δ is not known")
	}
	if n := len(r.Others); n > 3 {
		return append(out, append(slices.Clone(r.Others[:3]), fmt.Sprintf("and %d more like these", n-3))...)
	}
	return append(out, r.Others...)
}

const style = `:root{color-scheme:light}body{font:14px/1.5 system-ui,"DejaVu Sans",sans-serif;margin:24px auto;max-width:1340px;padding:0 16px;color:#1b1e22;background:#fff}
h1{font-size:22px}h2{font-size:16px;margin:28px 0 4px}p{margin:4px 0}svg{width:100%;height:auto}.dim{color:#667080}
table{border-collapse:collapse;font-size:12.5px}th,td{padding:2px 10px 2px 0;text-align:right;border-bottom:1px solid #e2e5ea;white-space:nowrap}th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}
details{margin:6px 0}summary{cursor:pointer;color:#1f6feb}`

// HTML writes a page: a table of the layers, and for each system its figures and a table of its heads. The page is one
// file that loads nothing.
func HTML(w io.Writer, model string, r *modes.Report) error {
	var b strings.Builder
	esc := html.EscapeString
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` + "\n")
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>States of %s</h1>\n", esc(model),
		style, esc(model))
	b.WriteString("<p class=\"dim\">Memory is the number of steps in which an impulse decays to 1/e. Gains are " +
		"amplifications of a head: of constant inputs, and the largest over all frequencies.</p>\n")
	for _, n := range notes(r) {
		fmt.Fprintf(&b, "<p class=\"dim\">%s.</p>\n", esc(n))
	}
	begin := func(first ...string) {
		b.WriteString("<table>\n<tr>")
		for _, t := range append(first, titles...) {
			b.WriteString("<th>" + esc(t) + "</th>")
		}
		b.WriteString("</tr>\n")
	}
	line := func(cells ...string) {
		b.WriteString("<tr>")
		for _, c := range cells {
			b.WriteString("<td>" + esc(c) + "</td>")
		}
		b.WriteString("</tr>\n")
	}
	begin("layer", "system")
	for i := range r.Systems {
		s := &r.Systems[i]
		line(append([]string{title(s), form(s)}, row(s.Heads)...)...)
	}
	b.WriteString("</table>\n")
	for i := range r.Systems {
		s := &r.Systems[i]
		picture, err := svg(newFigure(s))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "<h2>%s</h2>\n<p class=\"dim\">%s, %s, %d × %d per head</p>\n%s\n", esc(title(s)), esc(form(s)),
			esc(s.Direction), s.Outputs, s.Inputs, picture)
		fmt.Fprintf(&b, "<details><summary>%d heads</summary>\n", len(s.Heads))
		begin("head", "states")
		for k := range s.Heads {
			h := &s.Heads[k]
			line(append([]string{headName(h), strconv.Itoa(len(h.Modes))}, row(s.Heads[k:k+1])...)...)
		}
		b.WriteString("</table></details>\n")
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
