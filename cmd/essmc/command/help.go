package command

import (
	"github.com/spf13/cobra"
)

// newHelpCommand returns cobra's command, except that an unknown command is an error.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show help for a command",
		Example: "  essmc help run",
		Args:    args("[COMMAND]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return found.ValidateArgs(rest) // the root: the command is unknown
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() {
					out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// newCompletionCommand returns a command that writes completion scripts for shells.
func newCompletionCommand() *cobra.Command {
	shells := map[string]func(cmd *cobra.Command) error{
		"bash": func(cmd *cobra.Command) error { return cmd.Root().GenBashCompletionV2(cmd.OutOrStdout(), true) },
		"zsh":  func(cmd *cobra.Command) error { return cmd.Root().GenZshCompletion(cmd.OutOrStdout()) },
		"fish": func(cmd *cobra.Command) error { return cmd.Root().GenFishCompletion(cmd.OutOrStdout(), true) },
		"powershell": func(cmd *cobra.Command) error {
			return cmd.Root().GenPowerShellCompletionWithDesc(cmd.OutOrStdout())
		},
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a completion script for a shell",
		Long: `Completion writes a script for a shell. A shell that loads it completes essmc's
commands, flags and their values, presets and operators.`,
		Example: `  source <(essmc completion bash)
  essmc completion zsh > "${fpath[1]}/_essmc"
  essmc completion fish > ~/.config/fish/completions/essmc.fish
  essmc completion powershell | Out-String | Invoke-Expression`,
		Args: args("SHELL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := shells[args[0]]
			if !ok {
				return usagef("no script for the shell %q%s; there are bash, zsh, fish and powershell", args[0],
					didYouMean(args[0], names))
			}
			return write(cmd)
		},
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
	}
}
