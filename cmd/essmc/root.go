package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/essmc/essmc/internal/spell"
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
		Long: `essmc compiles state-space sequence models (eSSM, S4, S5, Mamba and others) and runs
them, without Python.

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
			var names []string
			for _, c := range cmd.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return usagef("unknown command %q%s; essmc -h lists all", args[0], didYouMean(args[0], names))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Make a model:"},
		&cobra.Group{ID: groupRun, Title: "Run a model:"},
		&cobra.Group{ID: groupLook, Title: "Inspect a model:"})
	root.AddCommand(newDemoCommand(), newInitCommand(), newConvertCommand(), newImportCommand(), newCompileCommand(),
		newExportCommand(),
		newRunCommand(), newStreamCommand(), newGenerateCommand(), newVerifyCommand(), newCompareCommand(), newBenchCommand(),
		newTuneCommand(), newTestCommand(), newDevicesCommand(),
		newInspectCommand(), newExplainCommand(), newOpsCommand(),
		newVersionCommand(), newCompletionCommand())
	root.SetHelpCommand(newHelpCommand())
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	return root
}

// usageError is an error in the command line.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// flagError adds the command, and the nearest flag to an unknown one, to an error of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	msg := err.Error()
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if name := unknown.GetSpecifiedName(); len(name) > 1 {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			msg = fmt.Sprintf("unknown flag --%s%s", name, didYouMean("--"+name, dashed(names)))
		}
	}
	return usagef("%s: %s; see %s -h", cmd.CommandPath(), msg, cmd.CommandPath())
}

func dashed(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "--" + n
	}
	return out
}

// didYouMean proposes the nearest name, if at most a third of it differs.
func didYouMean(word string, names []string) string {
	near := spell.Nearest(word, names)
	if near == "" || spell.Distance(word, near)*3 > max(len(near), 3) {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", near)
}

// args checks the number of arguments. Names are those in the usage line. Names in brackets are optional.
func args(names ...string) cobra.PositionalArgs {
	required := 0
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			required++
		}
	}
	return func(cmd *cobra.Command, given []string) error {
		if len(given) >= required && len(given) <= len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		found := "none"
		if len(given) > 0 {
			found = strings.Join(given, " ")
		}
		return usagef("%s: expected %s, found %s; see %s -h", cmd.CommandPath(), want, found, cmd.CommandPath())
	}
}
