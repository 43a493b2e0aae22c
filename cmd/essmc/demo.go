package main

import (
	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var dir, kind string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the paper's illustrative example, in four forms, and draw it",
		Long: `Compiles the paper's illustrative example, shows what the passes did, runs it as
a recurrence with the full matrix, as a diagonal recurrence, as a convolution
and as a convolution by FFT, and prints their largest difference. Then it starts
the system from a wrong state and shows how that is forgotten. Both figures are
written into a folder.`,
		Example: `  essmc demo
  essmc demo -o figures --format svg`,
		GroupID: groupStart,
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind != "png" && kind != "svg" {
				return usagef("--format: expected png or svg, found %q", kind)
			}
			return demo.Run(cmd.Context(), cmd.OutOrStdout(), dir, kind)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "essmc-demo", "folder for the figures; made if it is not there")
	cmd.Flags().StringVar(&kind, "format", "png", "what the figures are: png or svg")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"png", "svg"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
