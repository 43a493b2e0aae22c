package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// The groups of commands in the help.
const (
	groupStart = "start"
	groupLook  = "look"
	groupRun   = "run"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "essmc",
		Version: version(),
		Short:   "Compile state-space sequence models and run them",
		Long: `essmc compiles and runs ONNX models and state-space sequence models (eSSM, S4, S5, Mamba
and others), without Python.

MODEL is a model directory (config.json and model.safetensors), an ONNX file, a plan
from "essmc compile", or a graph as IR text.`,
		Example: `  essmc demo
  essmc init image -o model
  essmc compile model -o model.essm
  essmc run model.essm --input x.npy`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Make a model:"},
		&cobra.Group{ID: groupRun, Title: "Run a model:"},
		&cobra.Group{ID: groupLook, Title: "Inspect a model:"})
	root.AddCommand(newDemoCommand(), newInitCommand(), newConvertCommand(), newImportCommand(), newCompileCommand(),
		newExportCommand(),
		newRunCommand(), newStreamCommand(), newServeCommand(), newGenerateCommand(), newTokenizeCommand(),
		newVerifyCommand(), newCompareCommand(), newBenchCommand(),
		newTuneCommand(), newTestCommand(), newDevicesCommand(),
		newInspectCommand(), newExplainCommand(), newViewCommand(), newOpsCommand(),
		newVersionCommand(), newCompletionCommand())
	root.SetHelpCommand(newHelpCommand())
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	return root
}
