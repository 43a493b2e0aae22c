package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/runtime/plan"
)

func newCompileCommand() *cobra.Command {
	var file string
	var f sourceFlags
	var out target
	cmd := &cobra.Command{
		Use:     "compile MODEL -o PLAN",
		Short:   "Compile a model to a plan, one file for every backend",
		GroupID: groupStart,
		Long: `Compile runs the passes on a model and writes the result, a plan: the graph, the
weights, and the history of the passes, which essmc explain shows. Equal models give
equal plans.

--resample adapts the model to another sampling rate: R is 2 if the input has half the
rate of the training data. --shape fixes dimensions, which helps the passes with models
of unknown sizes. --state is for models that take a sequence in chunks, and their state
with each chunk. essmc stream carries the state then.

--parameters lets programs replace the content of weights later, without compiling the
model again. The passes then do not use their values, which can make the model slower.`,
		Example: `  essmc compile model -o model.essm
  essmc compile model -o model-8k.essm --resample 2
  essmc compile model.onnx -o model.essm --shape input=1,L,64
  essmc compile model.onnx -o model.essm --parameters '*.weight' --parameters '*.bias'`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("%s: -o PLAN is missing; try %s %s -o %s", cmd.CommandPath(), cmd.CommandPath(),
					quoted(args[0]), quoted(outputName(args[0], ".essm")))
			}
			if err := out.check(file, planFile, args[0]); err != nil {
				return err
			}
			m, err := f.open(cmd, args[0])
			if err != nil {
				return err
			}
			if m.Kind == open.Plan {
				return fmt.Errorf("%s: is already a plan", args[0])
			}
			g, err := busy(cmd, "compiling", m.Graph)
			if err != nil {
				return err
			}
			if err := f.checkWeights(m.Name, graphBytes(g)); err != nil {
				return err
			}
			for _, w := range m.Warnings() {
				warn(cmd, "%s", w)
			}
			write := func(w io.Writer) error { return plan.Write(files.UntilWriter(cmd.Context(), w), g) }
			if _, err := busy(cmd, "writing", func() (any, error) {
				return nil, atomicfile.Write(file, write)
			}); err != nil {
				return err
			}
			source, err := m.Source()
			if err != nil {
				return err
			}
			cmd.Printf("%s → %s after the passes\n", plural(len(source.Nodes), "node"), plural(len(g.Nodes), "node"))
			// warnings are on standard error, near misses are shown by explain --why
			printHistory(cmd.OutOrStdout(), withoutMisses(g.History), false)
			cmd.Printf("%s%s\n", file, sizeOf(file))
			return nil
		},
	}
	modelCompletion(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "write the plan to `PLAN`")
	complete(cmd, "output", filesOf("essm"))
	out.register(cmd)
	f.registerResample(cmd)
	f.registerShapes(cmd)
	f.registerCarry(cmd)
	f.registerSkip(cmd)
	f.registerParameters(cmd)
	f.registerBounds(cmd)
	return cmd
}
