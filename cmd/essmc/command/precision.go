package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/runtime"
)

// warnUnchanged warns of a precision that changes no product of the model.
func warnUnchanged(cmd *cobra.Command, m *open.Model, model *runtime.Model, precision string) {
	if precision != "bf16" && precision != "int8" && precision != tf32 {
		return
	}
	g := model.Graph()
	sizes, err := shape{}.sizes(g, m.Dims, takes(model))
	if err != nil {
		return // the run says why
	}
	choices, err := model.Explain(sizes.dims)
	if err != nil {
		return // the run says why
	}
	if why := unchanged(choices); why != "" {
		warn(cmd, "%s: --precision %s changes nothing: %s", m.Name, precision, why)
	}
}

// unchanged says why none of the products is in low precision; empty: one is.
func unchanged(choices []runtime.Choice) string {
	products, below := 0, map[string]bool{}
	for _, c := range choices {
		if c.Form == "int8" || c.Form == "bf16" || c.Form == tf32 {
			return ""
		}
		if c.Form == "float32" {
			_, size, _ := strings.Cut(c.Why, " smaller than ")
			products, below[size] = products+1, true
		}
	}
	switch {
	case products == 0:
		return "the model has no dense products with constant weights"
	case len(below) > 1 || below[""]:
		return fmt.Sprintf("0 of %s; essmc explain --precision tells why", plural(products, "dense product"))
	}
	return fmt.Sprintf("0 of %s: all below %s", plural(products, "dense product"), slices.Collect(maps.Keys(below))[0])
}
