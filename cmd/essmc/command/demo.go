package command

import (
	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var dir, kind string
	var out target
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run and plot the paper's illustrative example, in four forms",
		Long: `Demo compiles the paper's illustrative example, and runs it in four forms: as a
recurrence with the full matrix, as a diagonal recurrence, as a direct convolution,
and as a convolution by FFT. It prints the largest difference between them. Then it
starts the system from a wrong state, whose influence decays. It writes both figures
to a folder.`,
		Example: `  essmc demo
  essmc demo -o figures --format svg`,
		GroupID: groupStart,
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind != "png" && kind != "svg" {
				return usagef("--format: expected png or svg, found %q", kind)
			}
			for _, file := range demo.Files(dir, kind) {
				if err := out.check(file, map[string]fileKind{"png": pngFile, "svg": svgFile}[kind], ""); err != nil {
					return err
				}
			}
			return demo.Run(cmd.Context(), cmd.OutOrStdout(), dir, kind)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "essmc-demo", "folder for the figures, created if necessary")
	out.register(cmd)
	cmd.Flags().StringVar(&kind, "format", "png", "format of the figures: png or svg")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"png", "svg"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
