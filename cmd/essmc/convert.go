package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/models"
)

func newConvertCommand() *cobra.Command {
	var dir, config string
	var force bool
	cmd := &cobra.Command{
		Use:     "convert FILE -o DIR [--config FILE.yaml|FILE.json]",
		Short:   "Convert a checkpoint of the authors' code to a model directory",
		GroupID: groupStart,
		Long: `Convert reads a Lightning checkpoint (.ckpt) or a state dict (.pt) of the authors'
training code, and writes a model directory. Nothing in the file is executed. The
configuration is that of the checkpoint (hyper_parameters), or of --config. Convert
lists the settings that it drops, which are irrelevant for inference.

It also reads checkpoints of S5 and LRU in flax's msgpack: a file, or a folder with
checkpoint_N, and the options of the command line in args.json beside it.`,
		Example: `  essmc convert last.ckpt -o model
  essmc convert weights.pt --config config.yaml -o model
  essmc convert s5-run -o model`,
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return usagef("%s: -o DIR is missing", cmd.CommandPath())
			}
			if !force {
				if err := checkEmpty(dir); err != nil {
					return fmt.Errorf("%w; --force replaces a model", err)
				}
			}
			done := spin(cmd, "converting")
			c, w, notes, err := checkpoint.Convert(args[0], config)
			done()
			if err != nil {
				return err
			}
			n, err := models.Parameters(c, w)
			if err != nil {
				return err
			}
			if err := writeModel(cmd, dir, c, w, force); err != nil {
				return err
			}
			for _, note := range gather(notes) {
				cmd.Printf("note: %s\n", strings.TrimSpace(indent(wrap(oneLine(note), 94), "      ")))
			}
			cmd.Printf("%s  %d layers, %s parameters\n", dir, c.Common().Layers, grouped(int64(n)))
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"ckpt", "pt", "pth"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	outputDirVar(cmd, &dir)
	cmd.Flags().StringVar(&config, "config", "", "read the configuration, with the authors' names, from `FILE`")
	complete(cmd, "config", filesOf("yaml", "yml", "json"))
	forceVar(cmd, &force)
	return cmd
}

// gather joins notes ("KEY: TEXT") of several keys with the same text, in the order of the first of them.
func gather(notes []string) []string {
	var order []string
	keys := map[string][]string{}
	for _, n := range notes {
		what, key := n, ""
		if i := strings.LastIndex(n, ": "); i >= 0 {
			key, what = n[:i], n[i+2:]
		}
		if keys[what] == nil {
			order = append(order, what)
		}
		keys[what] = append(keys[what], key)
	}
	var out []string
	for _, what := range order {
		switch k := keys[what]; {
		case len(k) == 1 && k[0] == "":
			out = append(out, what)
		case len(k) == 1:
			out = append(out, k[0]+": "+what)
		default:
			out = append(out, what+": "+strings.Join(k, ", "))
		}
	}
	return out
}
