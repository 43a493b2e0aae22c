package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
)

// shown is the number of samples in a summary.
const shown = 8

// summary prints shape, range and mean of each output and, for each sample, the highest classes, with names if the
// model has them.
func summary(w io.Writer, model *runtime.Model, out map[string]tensor.Datum, top int) error {
	labels := classNames(model.Meta())
	for _, p := range model.Outputs() {
		if _, ok := out[p.Name]; !ok { // a stream keeps its state
			continue
		}
		t, ok := out[p.Name].(*tensor.Tensor)
		if !ok {
			fmt.Fprintf(w, "%s  %v\n", p.Name, p.Type)
			continue
		}
		if t.DType() == tensor.String {
			var texts []string
			for _, s := range t.Strings()[:min(t.Len(), shown)] {
				texts = append(texts, strconv.Quote(clip(s)))
			}
			if t.Len() > shown {
				texts = append(texts, "…")
			}
			fmt.Fprintf(w, "%s  %s  %s\n", p.Name, t, strings.Join(texts, " "))
			continue
		}
		v, err := t.Float64s()
		if err != nil {
			fmt.Fprintf(w, "%s  %s\n", p.Name, t)
			continue
		}
		fmt.Fprintf(w, "%s  %s%s\n", p.Name, t, statistics(v))
		if isClasses(p.Name, t) {
			probable := isProbability(model.Graph(), p.Name) || sumToOne(v, t.Dim(1))
			if err := classes(w, v, t.Dim(0), t.Dim(1), labels, top, probable); err != nil {
				return err
			}
		}
	}
	return nil
}

// isClasses reports whether an output may have a value for each class.
func isClasses(name string, t *tensor.Tensor) bool {
	return t.Rank() == 2 && t.Dim(1) > 1 && name != models.StateOut
}

// topClasses returns the highest classes of each sample of an output with a value for each class, and nil for others.
func topClasses(model *runtime.Model, name string, d tensor.Datum, top int) [][]classReport {
	t, ok := d.(*tensor.Tensor)
	if !ok || t.DType() == tensor.String || !isClasses(name, t) {
		return nil
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	n, labels := t.Dim(1), classNames(model.Meta())
	probable := isProbability(model.Graph(), name) || sumToOne(v, n)
	var all [][]classReport
	for i := range t.Dim(0) {
		var sample []classReport
		for _, c := range highest(v[i*n:(i+1)*n], top, probable) {
			if c.Class < len(labels) {
				c.Name = labels[c.Class]
			}
			sample = append(sample, c)
		}
		all = append(all, sample)
	}
	return all
}

// highest returns the highest values of a row, in order, with their softmax unless they are probabilities.
func highest(row []float64, top int, probable bool) []classReport {
	order := make([]int, len(row))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
	sum := 0.0
	for _, x := range row {
		sum += math.Exp(x - row[order[0]])
	}
	var list []classReport
	for _, k := range order[:min(top, len(row))] {
		share := math.Exp(row[k]-row[order[0]]) / sum
		if probable {
			share = max(row[k], 0)
		}
		list = append(list, classReport{Class: k, Value: number(row[k]), Probability: number(share)})
	}
	return list
}

// classNames returns the names of the model's classes, or nil.
func classNames(meta map[string]string) []string {
	var names []string
	if json.Unmarshal([]byte(meta[ir.MetaLabels]), &names) != nil {
		return nil
	}
	return names
}

func statistics(v []float64) string {
	lo, hi, sum, nan, n := math.Inf(1), math.Inf(-1), 0.0, 0, 0
	for _, x := range v {
		if math.IsNaN(x) {
			nan++
			continue
		}
		lo, hi, sum = min(lo, x), max(hi, x), sum+x
		n++
	}
	s := ""
	if n > 0 {
		s = fmt.Sprintf("  min %.6g  max %.6g  mean %.6g", lo, hi, sum/float64(n))
	}
	if nan > 0 {
		s += fmt.Sprintf("  NaN %d", nan)
	}
	return s
}

// isProbability reports whether the last operator before an output computes probabilities.
func isProbability(g *ir.Graph, output string) bool {
	i := slices.IndexFunc(g.Outputs, func(v *ir.Value) bool { return v.Name == output })
	if i < 0 {
		return false
	}
	v := g.Outputs[i]
	for v != nil && v.Def != nil && len(v.Def.Inputs) > 0 {
		switch v.Def.Op.FullName() {
		case "Softmax", "Sigmoid":
			return true
		case "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze":
			v = v.Def.Inputs[0]
		default:
			return false
		}
	}
	return false
}

// rounded is the largest error of a probability in float32 that was computed from a difference, such as 1 - p.
const rounded = 1e-6

// sumToOne reports whether each row of n values consists of probabilities that sum to 1, up to the rounding of float16.
func sumToOne(v []float64, n int) bool {
	for ; len(v) > 0; v = v[n:] {
		sum := 0.0
		for _, x := range v[:n] {
			if !(x >= -rounded && x <= 1+rounded) {
				return false
			}
			sum += x
		}
		if math.Abs(sum-1) > 1e-3 {
			return false
		}
	}
	return true
}

// classes prints the top classes of each sample, and the softmax of their values, unless these are probabilities
// already.
func classes(w io.Writer, v []float64, samples, n int, labels []string, top int, probable bool) error {
	title := "softmax"
	if probable {
		title = "probability"
	}
	columns := []table.Column{{Title: "sample", Right: true}, {Title: "rank", Right: true},
		{Title: "class", Right: true},
		{Title: "name"}, {Title: "value", Right: true}, {Title: title, Right: true}}
	var rows [][]string
	for i := range min(samples, shown) {
		row := v[i*n : (i+1)*n]
		for rank, c := range highest(row, top, probable) {
			name, k := "", c.Class
			if k < len(labels) {
				name = oneLine(labels[k])
			}
			sample := ""
			if rank == 0 {
				sample = strconv.Itoa(i)
			}
			rows = append(rows, []string{sample, strconv.Itoa(rank + 1), strconv.Itoa(k), name,
				strconv.FormatFloat(row[k], 'g', 5, 64), fmt.Sprintf("%.1f%%", 100*float64(c.Probability))})
		}
	}
	if err := table.Print(w, columns, rows); err != nil {
		return err
	}
	if samples > shown {
		fmt.Fprintf(w, "  … and %d more samples; --output writes them all\n", samples-shown)
	}
	return nil
}
