package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/runtime/plan"
)

func newCompileCommand() *cobra.Command {
	var file string
	var f sourceFlags
	cmd := &cobra.Command{
		Use:     "compile MODEL -o PLAN",
		Short:   "Compile a model into a plan, one file that every backend runs",
		GroupID: groupStart,
		Long: `Compile runs the passes over a model and writes what they made: the plan. It holds
the graph and the weights, and the history of the passes (essmc explain shows it). Equal
models give equal plans. --resample changes the sampling rate for good: R = 2 is for
input at half the rate that the model was trained for. --shape fixes dimensions, which
lets the passes find more where a model leaves everything open. --state is for models
that take chunks, and their state with each; essmc stream then carries it.`,
		Example: `  essmc compile model -o model.essm
  essmc compile model -o model-8k.essm --resample 2
  essmc compile model.onnx -o model.essm --shape input=1,L,64`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("%s: -o PLAN is missing", cmd.CommandPath())
			}
			m, err := f.open(cmd, args[0])
			if err != nil {
				return err
			}
			if m.Kind == open.Plan {
				return fmt.Errorf("%s: is a plan already", args[0])
			}
			done := spin(cmd, "compiling")
			g, err := m.Graph()
			done()
			if err != nil {
				return err
			}
			for _, w := range m.Warnings() {
				warn(cmd, "%s", w)
			}
			if err := plan.WriteFile(file, g); err != nil {
				return err
			}
			source, err := m.Source()
			if err != nil {
				return err
			}
			cmd.Printf("%s → %s as the passes left it\n", plural(len(source.Nodes), "node"), plural(len(g.Nodes), "node"))
			printHistory(cmd.OutOrStdout(), withoutMisses(g.History), false) // warnings went to standard error; explain --why tells of near misses
			size := ""
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
				size = "  " + byteCount(st.Size())
			}
			cmd.Printf("%s%s\n", file, size)
			return nil
		},
	}
	modelCompletion(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "write the plan to `PLAN`")
	complete(cmd, "output", filesOf("essm"))
	f.registerResample(cmd)
	f.registerShapes(cmd)
	f.registerCarry(cmd)
	return cmd
}
