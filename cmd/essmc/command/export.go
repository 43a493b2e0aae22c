package command

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/stepgraph"
)

func newExportCommand() *cobra.Command {
	var file, external string
	var opset int
	var functions, bare bool
	var replace target
	cmd := &cobra.Command{
		Use:     "export MODEL -o FILE.onnx",
		Short:   "Write a model as an ONNX file, for other engines",
		GroupID: groupStart,
		Long: fmt.Sprintf(`Export writes a model as an ONNX file of standard operators. State-space layers become
matrix products in chunks of time and a short recurrence between chunks, a form that
ONNX Runtime runs fast. essmc recognizes it when it reads the file. With --functions
each layer is one node of the domain ai.essmc, and the file has a function that defines
it in standard operators. This is for viewers; engines run it slowly.

--external FILE writes large weights to a file beside the model, which engines can map.
Its name ends with a hash of the weights, as in FILE-0123456789abcdef: a model never comes
with the weights of another one. The output names the file.

Batch and length stay variable. ONNX has no optional inputs: lengths and state_in become
required (zeros are the state before the first step), unless --without-optional drops
them.

--opset selects a version of ai.onnx, %d to %d. The default is the first from %d on that
has all operators of the model.`, lower.MinOpset, lower.MaxOpset, lower.DefaultOpset),
		Example: `  essmc export model -o model.onnx
  essmc export model.essm -o model.onnx --opset 13
  essmc export model -o model.onnx --functions
  essmc export model -o model.onnx --external model.bin --without-optional`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("%s: -o FILE.onnx is missing; try %s %s -o %s", cmd.CommandPath(), cmd.CommandPath(),
					quoted(args[0]), quoted(outputName(args[0], ".onnx")))
			}
			if cmd.Flags().Changed("opset") && (opset < lower.MinOpset || opset > lower.MaxOpset) {
				return usagef("%s: --opset: expected %d to %d, found %d", cmd.CommandPath(), lower.MinOpset,
					lower.MaxOpset, opset)
			}
			if err := replace.check(file, onnxFile, args[0]); err != nil {
				return err
			}
			m, err := readModel(cmd, args[0], open.Options{})
			if err != nil {
				return err
			}
			done := spin(cmd, "exporting")
			defer done()
			g, err := m.Graph()
			if err != nil {
				return err
			}
			out, bodies, err := lower.Lower(g, lower.Options{Opset: opset, Functions: functions, OmitOptional: bare})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if out.Input(models.StateIn) != nil { // streams can also run from the exported file
				out.Meta[ir.MetaState] = stepgraph.PairsText(map[string]string{models.StateIn: models.StateOut})
			}
			o := onnx.WriteOptions{External: external, Version: version()}
			for _, f := range bodies {
				o.Functions = append(o.Functions, onnx.Function(f))
			}
			data, err := onnx.WriteFiles(file, out, o)
			if err != nil {
				return err
			}
			done()
			for _, w := range m.Warnings() {
				warn(cmd, "%s", w)
			}
			cmd.Printf("%s%s  %s, opset %d\n", file, sizeOf(file), plural(len(out.Nodes), "node"), out.Opsets[""])
			if data != "" {
				data = filepath.Join(filepath.Dir(file), data)
				cmd.Printf("%s%s  its weights\n", data, sizeOf(data))
			}
			return nil
		},
	}
	modelCompletion(cmd)
	f := cmd.Flags()
	f.StringVarP(&file, "output", "o", "", "write the model to `FILE.onnx`")
	complete(cmd, "output", filesOf("onnx"))
	f.IntVar(&opset, "opset", 0, "version `N` of ai.onnx (default: the first that fits)")
	complete(cmd, "opset", cobra.NoFileCompletions)
	f.BoolVar(&functions, "functions", false, "write state-space layers as nodes of ai.essmc, with functions")
	f.StringVar(&external, "external", "", "write large weights to `FILE` beside the model; its name gets their hash")
	complete(cmd, "external", filesOf("bin", "data"))
	replace.register(cmd)
	f.BoolVar(&bare, "without-optional", false, "drop the inputs lengths and state_in")
	return cmd
}

// sizeOf returns the size of a regular file as text, after two spaces. It returns "" for others.
func sizeOf(file string) string {
	st, err := files.Stat(file)
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	return "  " + byteCount(st.Size())
}
