package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // for the list
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/runtime/cpu"
)

func newOpsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ops [NAME]",
		Short:   "List the operators, or describe one",
		GroupID: groupLook,
		Long: `Ops lists the operators of essmc: those of ONNX, which have no domain, those of
ai.onnx.ml, ai.onnx.preview.training and com.microsoft, and the state-space operators of
the domain "essm". With a name it describes one operator.

The column "cpu" shows how the CPU backend computes an operator: by a kernel; by the
operators of its body; once, when shapes are bound; or by its definition in float64,
which is slow on large tensors. When an ONNX file is read, operators of earlier versions
are upgraded to the newest. essmc bench shows the choice for each node of a model.`,
		Example: `  essmc ops
  essmc ops essm.SSM
  essmc ops Softmax`,
		Args: args("[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if len(args) == 0 {
				return listOps(w)
			}
			found := findOps(args[0])
			if len(found) == 0 {
				return usagef("no operator %q%s; essmc ops lists all", args[0], didYouMean(args[0], opNames()))
			}
			for i, op := range found {
				if i > 0 {
					fmt.Fprintln(w)
				}
				if err := showOp(w, op); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return opNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func opNames() []string {
	var names []string
	for _, op := range ops.Default.All() {
		names = append(names, op.FullName())
	}
	return slices.Compact(names)
}

// findOps returns all versions of an operator, the newest first. The domain and the case of letters may be omitted if
// the name is unique without them.
func findOps(name string) []*ir.Op {
	match := func(same func(op *ir.Op) bool) []*ir.Op {
		var out []*ir.Op
		for _, op := range ops.Default.All() {
			if same(op) {
				out = append(out, op)
			}
		}
		slices.Reverse(out)
		return out
	}
	if out := match(func(op *ir.Op) bool { return op.FullName() == name }); len(out) > 0 {
		return out
	}
	return match(func(op *ir.Op) bool {
		return strings.EqualFold(op.FullName(), name) || strings.EqualFold(op.Name, name)
	})
}

func listOps(w io.Writer) error {
	columns := []table.Column{{Title: "operator"}, {Title: "since", Right: true}, {Title: "cpu"},
		{Title: "signature", Width: 40}, {Title: "description", Width: 46}}
	var rows [][]string
	for _, op := range ops.Default.All() {
		rows = append(rows, []string{op.FullName(), fmt.Sprint(op.Since), cpu.Way(op), signature(op), op.Doc})
	}
	return table.Print(w, columns, rows)
}

// signature returns text such as "(x:T[B,L,N], z0:T[2,B,N]?) → (x:T[B,L,N])".
func signature(op *ir.Op) string {
	return "(" + params(op.In) + ") → (" + params(op.Out) + ")"
}

func params(list []ir.Param) string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Name + ":" + p.Elem
		if p.Dims != nil {
			out[i] += "[" + strings.Join(p.Dims, ",") + "]"
		}
		switch {
		case p.Variadic:
			out[i] += "*"
		case p.Optional:
			out[i] += "?"
		}
	}
	return strings.Join(out, ", ")
}

func showOp(w io.Writer, op *ir.Op) error {
	fmt.Fprintf(w, "%s, since version %d", op.FullName(), op.Since)
	if op.Until > 0 {
		fmt.Fprintf(w, ", removed in version %d", op.Until)
	}
	fmt.Fprintf(w, "\n\n%s\n\n", indent(wrap(op.Doc, 90), "  "))
	for _, list := range []struct {
		name   string
		params []ir.Param
	}{{"inputs", op.In}, {"outputs", op.Out}} {
		fmt.Fprintf(w, "%s\n", list.name)
		var rows [][]string
		for _, p := range list.params {
			what := ""
			switch {
			case p.Variadic:
				what = "any number"
			case p.Optional:
				what = "optional"
			}
			dims := "any shape"
			if p.Dims != nil {
				dims = "[" + strings.Join(p.Dims, ",") + "]"
			}
			rows = append(rows, []string{p.Name, p.Elem, dims, what})
		}
		if err := table.Print(w, []table.Column{{Title: "name"}, {Title: "element"}, {Title: "shape"},
			{Title: "presence"}}, rows); err != nil {
			return err
		}
	}
	if len(op.Elems) > 0 {
		fmt.Fprintf(w, "elements\n")
		for _, v := range slices.Sorted(maps.Keys(op.Elems)) {
			var names []string
			for _, d := range op.Elems[v] {
				names = append(names, d.String())
			}
			fmt.Fprintf(w, "  %s: %s\n", v, strings.TrimSpace(indent(wrap(strings.Join(names, ", "), 90), "     ")))
		}
	}
	if len(op.Attrs) > 0 {
		fmt.Fprintf(w, "attributes\n")
		var rows [][]string
		for _, a := range op.Attrs {
			value := "optional"
			switch {
			case a.Required:
				value = "required"
			case a.Default != nil:
				value = fmt.Sprintf("default %v", a.Default)
			}
			kind := string(a.Kind)
			if len(a.OneOf) > 0 {
				kind = strings.Join(a.OneOf, "|")
			}
			rows = append(rows, []string{a.Name, kind, value, a.Doc})
		}
		columns := []table.Column{{Title: "name"}, {Title: "kind", Width: 40}, {Title: "value"},
			{Title: "meaning", Width: 60}}
		if err := table.Print(w, columns, rows); err != nil {
			return err
		}
	}
	tol := "exact"
	if op.Tol.Ulps > 0 {
		tol = fmt.Sprintf("%g rounding units of the largest absolute value", op.Tol.Ulps)
	}
	way := cpu.Way(op)
	if kinds := cpu.Kinds(op); len(kinds) > 0 {
		way += " (" + strings.Join(kinds, ", ") + ")"
	}
	_, err := fmt.Fprintf(w, "tolerance: %s\nCPU backend: %s\n", tol, way)
	return err
}
